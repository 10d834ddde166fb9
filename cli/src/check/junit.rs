//! Test reports in JUnit's XML format, which continuous-integration services read. Called by `check`.
//!
//! Three elements and a function that escapes are written here. A crate for it brings a writer of XML, dates and unique
//! ids.

use super::report::{Counts, problems};
use super::suite::{Outcome, Suite};
use vireo::visible_text::is_invisible;

/// The report as XML.
pub fn junit(suites: &[Suite]) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for suite in suites {
        let counts = Counts::of(&suite.tests);
        let seconds = suite.tests.iter().map(|test| test.seconds).sum::<f64>();
        let name = escape(&suite.module);
        text.push_str(&format!(
            "  <testsuite name=\"{name}\" file=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.6}\">\n",
            escape(&suite.file),
            suite.tests.len(),
            counts.failed,
            counts.errors,
            counts.skipped
        ));
        for test in &suite.tests {
            let start = format!(
                "    <testcase classname=\"{name}\" name=\"{}\" time=\"{:.6}\"",
                escape(&test.name),
                test.seconds
            );
            let element = match &test.outcome {
                Outcome::Passed => None,
                Outcome::Skipped(reason) => Some(format!("<skipped message=\"{}\"/>", escape(reason))),
                Outcome::Failed(_) => Some(problem("failure", &problems(&test.outcome))),
                Outcome::Error(..) => Some(problem("error", &problems(&test.outcome))),
            };
            match element {
                None => text.push_str(&format!("{start}/>\n")),
                Some(element) => text.push_str(&format!("{start}>\n      {element}\n    </testcase>\n")),
            }
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn problem(element: &str, text: &str) -> String {
    let first = text.lines().next().unwrap_or("");
    format!("<{element} message=\"{}\">{}</{element}>", escape(first), escape(text))
}

/// Characters that XML reserves as entities; those that it cannot have at all become question marks.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if is_invisible(c) || matches!(c, '\u{FFFE}' | '\u{FFFF}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use vireo::modules::check::{Collected, UnmetExpectation};

    use super::*;
    use crate::check::Test;

    #[test]
    fn escaped_and_counted() {
        let unmet = UnmetExpectation { export: "expect_true", message: "0 is <not> \"&\" \u{1}".into() };
        let tests = vec![
            Test { name: "a<b".into(), seconds: 0.25, outcome: Outcome::Passed },
            Test {
                name: "f".into(),
                seconds: 0.5,
                outcome: Outcome::Failed(Collected { unmet: vec![unmet], more: 0 }),
            },
            Test { name: "s".into(), seconds: 0.0, outcome: Outcome::Skipped("takes arguments") },
        ];
        let suite = Suite { file: "x.vmfb".into(), module: "m".into(), exports: Vec::new(), tests };
        let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="m" file="x.vmfb" tests="3" failures="1" errors="0" skipped="1" time="0.750000">
    <testcase classname="m" name="a&lt;b" time="0.250000"/>
    <testcase classname="m" name="f" time="0.500000">
      <failure message="expect_true: 0 is &lt;not&gt; &quot;&amp;&quot; ?">expect_true: 0 is &lt;not&gt; &quot;&amp;&quot; ?
</failure>
    </testcase>
    <testcase classname="m" name="s" time="0.000000">
      <skipped message="takes arguments"/>
    </testcase>
  </testsuite>
</testsuites>
"#;
        assert_eq!(junit(&[suite]), expected);
    }
}
