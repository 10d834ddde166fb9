//! The results of all parts as one file and a page.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Request;

/// The parts in the order of the page, with what each is about.
const PARTS: [(&str, &str); 9] = [
    ("probe", "attributes, limits and the version of the driver"),
    ("forms", "forms of instructions against the interpreter"),
    ("conform", "the device suite with streams and with graphs"),
    ("corpus", "compiled programs against their expected results"),
    ("cost", "time of launches, graphs, submissions and allocations"),
    ("faults", "calls and kernels that fail, against the software driver"),
    ("order", "random graphs of operations on four streams"),
    ("nccl", "a communicator of one rank, and its split"),
    ("clients", "programs that were not written for Vireo"),
];

/// Puts the files of `rest` and of the folder together, and writes `DAY-DEVICE.json` and the page beside it.
pub fn report(request: &Request) -> std::io::Result<PathBuf> {
    let mut all = crate::results(&request.out);
    for file in &request.rest {
        let text = std::fs::read_to_string(file)?;
        let other: Value = serde_json::from_str(&text).map_err(std::io::Error::other)?;
        for (part, outcome) in other["parts"].as_object().into_iter().flatten() {
            all["parts"][part] = outcome.clone();
        }
    }
    let probe = &all["parts"]["probe"];
    let device = probe["device"].as_str().unwrap_or("no device").to_string();
    let version = probe["version"].as_str().unwrap_or("unknown").to_string();
    let day = day(std::time::SystemTime::now());
    let plain: String =
        device.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
    let name = format!("{day}-{}", words.join("-"));
    all["day"] = json!(day);
    all["device"] = json!(device);
    std::fs::write(request.out.join(format!("{name}.json")), format!("{all:#}\n"))?;
    let page = request.out.join(format!("{name}.md"));
    std::fs::write(&page, text(&all, &device, &version, Path::new(&format!("{name}.json"))))?;
    Ok(page)
}

/// The day of a moment, such as `2026-11-30`.
fn day(moment: std::time::SystemTime) -> String {
    let seconds = moment.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // Days of years that begin in March, so that the day that leap years have is the last one.
    let days = (seconds / 86_400) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

fn text(all: &Value, device: &str, version: &str, data: &Path) -> String {
    let mut text = format!("# {device}, CUDA {version}\n\nThe data are in `{}`.\n\n", data.display());
    text.push_str("| part | about | outcome | seconds | |\n|---|---|---|---|---|\n");
    for (part, about) in PARTS {
        let found = &all["parts"][part];
        let outcome = found["outcome"].as_str().unwrap_or("not run");
        let _ =
            writeln!(text, "| {part} | {about} | {outcome} | {} | {} |", cell(&found["seconds"]), note(part, found));
    }
    let cost = &all["parts"]["cost"];
    if let Some(rows) = cost["rows"].as_array() {
        text.push_str("\n## Cost\n\n| | microseconds |\n|---|---|\n");
        for row in rows {
            let _ = writeln!(text, "| {} | {} |", cell(&row["name"]), cell(&row["microseconds"]));
        }
    }
    for (title, list, key) in [
        ("Forms that differ", &all["parts"]["forms"]["exact_that_differ"], "form"),
        ("Forms that the library refuses", &all["parts"]["forms"]["refused"], "form"),
        ("Approximations that differ", &all["parts"]["forms"]["approximate_that_differ"], "form"),
    ] {
        let list = list.as_array().filter(|list| !list.is_empty());
        let Some(list) = list else { continue };
        let _ = writeln!(text, "\n## {title}\n\n| form | rows | units | first |\n|---|---|---|---|");
        for entry in list {
            let first = if entry["why"].is_null() { &entry["first"] } else { &entry["why"] };
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} |",
                cell(&entry[key]),
                cell(&entry["rows"]),
                cell(&entry["units"]),
                cell(first)
            );
        }
    }
    let faults = all["parts"]["faults"]["faults"].as_array();
    if let Some(faults) = faults {
        text.push_str("\n## Faults\n\n| fault | library | software |\n|---|---|---|\n");
        for fault in faults {
            let calls = |list: &Value| match list.as_array() {
                Some(list) => list
                    .iter()
                    .map(|call| format!("{} {}", cell(&call["call"]), call["status"]))
                    .collect::<Vec<_>>()
                    .join(", "),
                None => cell(list),
            };
            let mark = if fault["same"] == true { "" } else { " **differs**" };
            let _ = writeln!(
                text,
                "| {}{mark} | {} | {} |",
                cell(&fault["fault"]),
                calls(&fault["library"]),
                calls(&fault["software"])
            );
        }
    }
    text
}

/// A value in a cell of a table.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.replace('|', "\\|").replace('\n', " ")
}

fn note(part: &str, found: &Value) -> String {
    let of = |key: &str| cell(&found[key]);
    let why = of("why");
    if !why.is_empty() {
        return why;
    }
    match part {
        "probe" => format!(
            "{} of memory, {} attributes differ from the table",
            of("memory"),
            count(&found["attributes_that_differ"])
        ),
        "forms" => format!("{} of {} equal with {} rows each", of("equal"), of("forms"), of("rows")),
        "faults" => format!("{} differ", of("differ")),
        _ => of("summary"),
    }
}

fn count(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}
