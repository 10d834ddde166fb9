//! Numbers of bytes as text: printing in the unit that fits, and parsing with or without a unit. The command and the
//! summaries of the library print them; flags and specs of allocators are parsed.

/// The binary units, largest first.
const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// The units that are read, in lower case: binary ones and decimal ones.
const SUFFIXES: [(&str, u64); 9] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
];

/// A number of bytes in the largest binary unit of which there is at least one: `512 bytes`, `1.5 KiB`.
pub fn text(bytes: u64) -> String {
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// Reads a number of bytes with an optional unit, in any case: `4096`, `64kib`, `1 GiB`, `2mb`. `kib` is 1024 bytes,
/// `kb` is 1000. None for anything else, and for more than there can be.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let unit = SUFFIXES.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)));
    let (digits, unit) = unit.unwrap_or((&text, 1));
    let digits = digits.trim_end();
    // A sign is no part of a size, though the standard library reads one.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_fits() {
        let sizes = [0, 1023, 1024, 5464, 10 << 20, 3 << 30, 3 << 40].map(text);
        assert_eq!(sizes, ["0 bytes", "1023 bytes", "1.0 KiB", "5.3 KiB", "10.0 MiB", "3.0 GiB", "3.0 TiB"]);
    }

    #[test]
    fn sizes_are_read_with_and_without_units() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("7b", 7),
            ("64kib", 64 << 10),
            (" 1 GiB ", 1 << 30),
            ("2MB", 2_000_000),
            ("16777215TiB", 16_777_215 << 40),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
        for wrong in ["", "kib", "-1", "+1", "1.5kib", "1x", "1 k", "0x10", "16777216tib", "18446744073709551616"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
