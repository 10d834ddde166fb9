//! Suggestions for misspelt names, for the hints of failures.

/// How alike two names are at least, from 0 to 1.
const LEAST: f64 = 0.75;

/// The name that was probably meant.
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let likeness = |known: &'a str| {
        let lower = known.to_lowercase();
        // Of short names too few letters agree, even if only one is wrong or missing.
        let is_slip = name.chars().count() > 1 && strsim::osa_distance(&name, &lower) == 1;
        (strsim::jaro_winkler(&name, &lower).max(if is_slip { LEAST + f64::EPSILON } else { 0.0 }), known)
    };
    let alike = known.into_iter().map(likeness).filter(|(likeness, _)| *likeness > LEAST);
    alike.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, known)| known)
}

/// `did you mean X?` before other text of a hint, if a known name is alike.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, prefix: &str) -> String {
    closest(name, known).map_or_else(String::new, |known| format!("did you mean `{prefix}{known}`? "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_alike_are_suggested() {
        let known = ["abs", "negate", "local-sync", "local-task"];
        assert_eq!(closest("aps", known), Some("abs"));
        assert_eq!(closest("Negat", known), Some("negate"));
        assert_eq!(closest("local_task", known), Some("local-task"));
        assert_eq!(closest("toaster", known), None);
        assert_eq!(closest("rn", ["run", "dump"]), Some("run"));
        assert_eq!(closest("r", ["dump"]), None);
        assert_eq!(did_you_mean("toaster", known, "@"), "");
        assert_eq!(did_you_mean("aps", known, "@"), "did you mean `@abs`? ");
    }
}
