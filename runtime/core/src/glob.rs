//! Glob patterns with `*` and `?`: programs match ids of devices with them, and `vireo check` names of tests.
//!
//! Ids of devices are matched byte by byte, as in the reference runtime, and names of tests by characters. Crates for
//! globs support only one of the two, or give brackets and slashes a meaning.

/// True if `pattern` is all of `text`; `*` stands for any elements and `?` for one. Elements are bytes or characters.
pub fn matches<T: Copy + PartialEq + From<u8>>(pattern: &[T], text: &[T]) -> bool {
    let (any, one) = (T::from(b'*'), T::from(b'?'));
    let (mut p, mut t) = (0, 0);
    // The position of the last `*`, and the end of the text that it matches. Only the last one has to be tried with
    // more text.
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(element) if *element == any => {
                star = Some((p, t));
                p += 1;
            }
            Some(element) if *element == one || *element == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, end)) => {
                    star = Some((at, end + 1));
                    (p, t) = (at + 1, end + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|element| *element == any)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "anything", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbcd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*c*", "xxaxxbxxcxx", true),
            ("*ab*ab", "abab", true),
            ("*ab*ab", "abxb", false),
            (&"*a".repeat(50), &"a".repeat(49), false),
        ] {
            let characters = |text: &str| text.chars().collect::<Vec<char>>();
            assert_eq!(matches(&characters(pattern), &characters(text)), expected, "{pattern} {text}");
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        assert!(matches(&['ä', '?'], &['ä', 'ö']));
        assert!(!matches("ä?".as_bytes(), "äö".as_bytes()) && matches("ä??".as_bytes(), "äö".as_bytes()));
    }
}
