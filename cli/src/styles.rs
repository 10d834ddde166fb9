//! Colours of what commands print for people. They go through a stream that strips them where there is no terminal and
//! where `NO_COLOR` or `--color=never` asks for none. Texts are escaped before, so that none of a file brings colours
//! of its own.

use anstyle::{AnsiColor, Style};

const HEADING: Style = Style::new().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const ABSENT: Style = Style::new().dimmed();

fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Lines of a heading.
pub fn bold(text: &str) -> String {
    text.lines().map(|line| paint(HEADING, line) + "\n").collect()
}

/// A list with sections: the words before the colon at the begin of a line are headings, and what is missing stands
/// out.
pub fn sections(text: &str) -> String {
    text.lines().map(|line| section_line(line) + "\n").collect()
}

fn section_line(line: &str) -> String {
    if let Some(before) = line.strip_suffix("MISSING") {
        return before.to_string() + &paint(BAD, "MISSING");
    }
    if let Some(before) = line.strip_suffix("not here") {
        return before.to_string() + &paint(ABSENT, "not here");
    }
    if line == "everything is there" {
        return paint(GOOD, line);
    }
    if line.starts_with("module @") {
        return paint(HEADING, line);
    }
    if line == "missing:" {
        return paint(BAD, line);
    }
    match line.split_once(':') {
        Some((heading, rest)) if !heading.starts_with(' ') && !heading.is_empty() => {
            paint(HEADING, heading) + ":" + rest
        }
        _ => line.to_string(),
    }
}

/// A table: its header, and lines about what cannot be used, which no table has.
pub fn table(text: &str) -> String {
    let line = |(index, line): (usize, &str)| match line {
        line if line.contains(" cannot be used: ") => paint(BAD, line),
        line if index == 0 => paint(HEADING, line),
        line => line.to_string(),
    };
    text.lines().enumerate().map(line).map(|line| line + "\n").collect()
}

/// A comparison of times: shorter ones and longer ones.
pub fn changes(text: &str) -> String {
    let change = |line: &str| {
        let (before, change) = line.rsplit_once("  ").unwrap_or(("", line));
        let style = match change.trim_start().as_bytes() {
            [b'-', .., b'%'] => GOOD,
            [b'+', .., b'%'] => BAD,
            _ => return line.to_string(),
        };
        format!("{before}  {}", paint(style, change))
    };
    text.lines().map(change).map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_change_no_text() {
        let text = "functions:\n  f()\n  w: 64 bytes  MISSING\n  arm  not here\nmemory: 3\nmissing:\n  w\neverything is there\n";
        let strip = |text: &str| anstream::adapter::strip_str(text).to_string();
        assert_eq!(strip(&sections(text)), text);
        assert!(sections(text).contains(&paint(BAD, "MISSING")));
        let text = "  device  name\n  a://    b\n  driver c cannot be used: d\n";
        assert_eq!(strip(&table(text)), text);
        let text = "\n  a  1 ms  2 ms  +100.0 %\n  a  2 ms  1 ms  -50.0 %\n  a  -\n";
        assert_eq!(strip(&changes(text)), text);
        assert!(changes(text).contains(&paint(BAD, "+100.0 %")) && changes(text).contains(&paint(GOOD, "-50.0 %")));
    }
}
