//! Executables that are hostile: each is refused with what is wrong, and nothing panics.

use vireo_core::status::StatusCode;

use crate::mutants::Mutants;
use crate::support::*;

const RETURN: &str = "    ret;";

#[test]
fn what_is_wrong_with_an_executable_is_named() {
    let device = device(&[]);
    let refused = |data: &[u8]| refusal(prepare(&*device, data)).to_string();
    let good = executable(&module(2, RETURN), "main", [32, 1, 1], 2, 0);
    prepare(&*device, &good).expect("loads");
    for (data, expected) in [
        (b"\x7fELF....".to_vec(), "it begins with [7f, 45, 4c, 46"),
        (Vec::new(), "it begins with []"),
        (executable(&module(2, RETURN), "other", [32, 1, 1], 2, 0), "kernel `other`"),
        (executable(&module(2, RETURN), "main", [0, 1, 1], 2, 0), "its block size is [0, 1, 1]"),
        (executable(&module(2, RETURN), "main", [u32::MAX, 2, 1], 2, 0), "its block size is [4294967295, 2, 1]"),
        (executable(&module(2, RETURN), "main", [2048, 1, 1], 2, 0), "which are 2048"),
        (executable(&module(2, RETURN), "main", [32, 1, 1], 65, 0), "65 bindings and 0 constants"),
        (executable(&module(2, RETURN), "main", [32, 1, 1], 2, 257), "2 bindings and 257 constants"),
        (executable(&module(2, "    frobnicate;"), "main", [32, 1, 1], 2, 0), "frobnicate"),
        (executable("nothing", "main", [32, 1, 1], 0, 0), "has no line `.target sm_...`"),
        (executable("a\0b", "main", [32, 1, 1], 0, 0), "a zero at byte 1 of 3"),
        (
            executable(&module(0, RETURN).replace("sm_60", "sm_90"), "main", [32, 1, 1], 0, 0),
            "PTX for `sm_90` does not run on a device of `sm_86`",
        ),
    ] {
        let text = refused(&data);
        assert!(text.contains(expected), "{text}: expected {expected}");
    }
    // With the line that the compiler of the library names.
    let text = refused(&executable(&module(2, "    ret;\n    frobnicate;"), "main", [32, 1, 1], 2, 0));
    assert!(text.contains("line 7"), "{text}");
}

/// A header before the tables, as compilers write it since release 3.9.
#[test]
fn headers_are_checked() {
    let device = device(&[]);
    prepare(&*device, KERNELS).expect("loads");
    let with = |at: usize, byte: u8| {
        let mut data = KERNELS.to_vec();
        data[at] = byte;
        refusal(prepare(&*device, &data))
    };
    assert!(with(4, 9).to_string().contains("the version is 9, expected 0"));
    assert!(with(14, 1).to_string().contains("the length is"));
    assert_eq!(refusal(prepare(&*device, &KERNELS[..100])).code(), StatusCode::InvalidArgument);
}

/// Mutants of a good executable: most are refused, and those that are not load. `VIREO_MUTANTS=100000`
/// makes more of them.
#[test]
fn mutants_are_refused_or_load() {
    let device = device(&[]);
    let good = executable(&module(2, RETURN), "main", [32, 1, 1], 2, 0);
    let mut mutants = Mutants::new(0x9e37_79b9_7f4a_7c15);
    let count = std::env::var("VIREO_MUTANTS").ok().and_then(|count| count.parse().ok()).unwrap_or(3000);
    let (mut loaded, mut refused) = (0, 0);
    for _ in 0..count {
        let data = mutants.of(&good);
        match prepare(&*device, &data) {
            Ok(_) => loaded += 1,
            Err(_) => refused += 1,
        }
    }
    println!("{count} mutants: {loaded} loaded, {refused} refused");
    assert!(loaded > 0 && refused > 0, "{loaded} loaded, {refused} refused");
}
