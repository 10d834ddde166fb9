//! The filter of test names, with GoogleTest's patterns. `check` selects tests by it.

use vireo::glob;

/// `PATTERN:PATTERN-PATTERN:PATTERN`: names that one of the first patterns matches, and none of those after the dash.
#[derive(Debug, Default)]
pub struct Filter {
    wanted: Vec<String>,
    unwanted: Vec<String>,
}

impl Filter {
    /// Reads the patterns. Every text is a filter; without patterns before the dash every name matches.
    pub fn parse(text: &str) -> Filter {
        let (wanted, unwanted) = text.split_once('-').unwrap_or((text, ""));
        let patterns = |text: &str| text.split(':').filter(|one| !one.is_empty()).map(str::to_string).collect();
        Filter { wanted: patterns(wanted), unwanted: patterns(unwanted) }
    }

    /// True if the test `module.function` is to be run. Patterns may leave out the module.
    pub fn matches(&self, module: &str, function: &str) -> bool {
        let full = format!("{module}.{function}");
        let any = |patterns: &[String]| patterns.iter().any(|one| matches(one, &full) || matches(one, function));
        (self.wanted.is_empty() || any(&self.wanted)) && !any(&self.unwanted)
    }
}

/// True if `pattern` is all of `text`; `*` stands for any text and `?` for any character.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    glob::matches(&pattern, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters() {
        let runs = |filter: &str, test: &str| Filter::parse(filter).matches("m", test);
        assert!(runs("", "a"));
        assert!(runs("a", "a") && !runs("a", "ab"));
        assert!(runs("m.a", "a") && !runs("n.a", "a"));
        assert!(runs("x:a*", "ab"));
        assert!(runs("ä?", "äö"));
        assert!(runs("-b", "a") && !runs("-b", "b"));
        assert!(!runs("a*-ab:ac", "ac") && runs("a*-ab:ac", "ad"));
    }
}
