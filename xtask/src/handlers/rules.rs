//! The rules for handlers, parsed from `handlers.txt`: each line has a keyword and the path of a module or function;
//! the reason follows `#`.

/// The rules.
#[derive(Debug, Default)]
pub struct Rules {
    handlers: Vec<String>,
    others: Vec<String>,
    stops: Vec<String>,
    calls: Vec<String>,
    ends: Vec<String>,
}

impl Rules {
    /// Reads the rules.
    pub fn parse(text: &str) -> Result<Rules, String> {
        let mut rules = Rules::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(word) = words.next() else { continue };
            let list = match word {
                "handlers" => &mut rules.handlers,
                "other" => &mut rules.others,
                "stop" => &mut rules.stops,
                "call" => &mut rules.calls,
                "end" => &mut rules.ends,
                _ => return Err(format!("handlers.txt:{}: expected handlers, other, stop, call or end", number + 1)),
            };
            match (words.next(), words.next()) {
                (Some(path), None) => list.push(path.to_string()),
                _ => return Err(format!("handlers.txt:{}: expected one path after `{word}`", number + 1)),
            }
        }
        Ok(rules)
    }

    /// Whether the function with this name is a handler.
    pub fn is_handler(&self, name: &str) -> bool {
        is_in(&self.handlers, name) && !is_in(&self.others, name)
    }

    /// Whether the handler with this name only stops.
    pub fn is_stop(&self, name: &str) -> bool {
        is_in(&self.stops, name)
    }

    /// Whether handlers may call the function with this name.
    pub fn may_call(&self, name: &str) -> bool {
        is_in(&self.calls, name) || self.never_returns(name)
    }

    /// Whether the function with this name does not return.
    pub fn never_returns(&self, name: &str) -> bool {
        is_in(&self.ends, name)
    }

    /// A name without the paths of modules: `op<AddI32>`.
    pub fn short(&self, name: &str) -> String {
        let mut short = String::new();
        for part in name.replace("::<", "<").split_inclusive(|c: char| !c.is_alphanumeric() && c != '_' && c != ':') {
            short.push_str(part.rsplit("::").next().unwrap_or(part));
        }
        short
    }
}

/// Whether `name` is one of `paths`, an instance of it, or inside of it.
fn is_in(paths: &[String], name: &str) -> bool {
    paths.iter().any(|path| {
        name.strip_prefix(path.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with('<'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_covers_itself_its_instances_and_what_is_inside() {
        let rules = Rules::parse("handlers a::b # why\nother a::b::c\nstop a::b::s\ncall d\n").unwrap();
        assert!(["a::b::f", "a::b::f::<x::Y>", "a::b::cd"].iter().all(|name| rules.is_handler(name)));
        assert!(!["a::b::c", "a::b::c::<x>", "a::bc::f", "<a::b::T>::f"].iter().any(|name| rules.is_handler(name)));
        assert!(rules.is_stop("a::b::s") && rules.may_call("d") && rules.may_call("d::<E>") && !rules.may_call("de"));
        assert_eq!(rules.short("a::b::op::<x::y::AddI32, true>"), "op<AddI32, true>");
    }

    #[test]
    fn other_lines_are_refused() {
        assert_eq!(
            Rules::parse("\nhelper a").unwrap_err(),
            "handlers.txt:2: expected handlers, other, stop, call or end"
        );
        assert_eq!(Rules::parse("call a b").unwrap_err(), "handlers.txt:1: expected one path after `call`");
    }
}
