//! The library of another vendor beside that whose functions a driver calls: its differences in the interface, and each
//! mistake with its message.

use vireo_codegen::{generate, load};

const PLACE: &str = "spec/api/cuda/hip.yaml";

/// The real specs, with another text of the partner.
fn with(change: impl Fn(&str) -> String) -> Vec<(&'static str, String)> {
    let files = vireo_spec::FILES.iter();
    let changed = |path: &str, text: &str| if path == PLACE { change(text) } else { text.to_string() };
    files.map(|(path, text)| (*path, changed(path, text))).collect()
}

/// The failure of the specs with other texts of the partner.
fn refused(change: impl Fn(&str) -> String) -> String {
    let files = with(change);
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    load(&files).expect_err("the spec is wrong").to_string()
}

#[test]
fn the_interface_says_what_is_different() {
    let spec = load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let files = generate(&spec);
    let file = files.iter().find(|file| file.path == "stream/api.rs").expect("the interface");
    for text in [
        "/// `cuStreamCreate` in CUDA, `hipStreamCreateWithFlags` in HIP.\n    ///\n    /// # Errors",
        "/// In HIP, its arguments are `(to, from, size, kind = 4, stream)`.",
        "/// In HIP, its arguments are `(to, the device of dst_context, from, the device of src_context, size, stream)`.",
        "/// In HIP, `DeviceAttribute` has other numbers.",
        "/// In HIP, `KernelNodeParams` has 64 bytes in another order.",
    ] {
        assert!(file.text.contains(text), "{text}");
    }
}

#[test]
fn mistakes_are_told() {
    let cases = [
        ("copy_to_peer:", "copy_to_per:", "there is no call `copy_to_per` with a name there; did you mean"),
        ("error_name: [status]", "error_name: [statu]", "`error_name` has no argument `statu`; did you mean `status`?"),
        ("error_name: [status]", "error_name: [status, text]", "`error_name` has the same arguments there"),
        ("{name: kind, value: 4}", "{name: kind}", "`copy`: expected an argument, `name` and `value`, or `device_of`"),
        ("    memory_type:", "    memory_typ:", "there is no code `memory_typ`; did you mean"),
        ("max_block_dim_x: 26", "max_block_dim_v: 26", "`device_attribute` has no value `max_block_dim_v`; did you"),
        (
            "max_block_dim_x: 26",
            "max_block_dim_x: 27",
            "`device_attribute`: `max_block_dim_x` and `max_block_dim_y` are",
        ),
        ("    kernel_node_params:", "    kernel_node_param:", "there is no layout `kernel_node_param`; did you mean"),
        ("{dst: 0, ", "{", "`memset_node_params`: `dst` has an offset there or is absent, one of both"),
        ("{dst: 0, ", "{dst: 0, dts: 4, ", "`memset_node_params` has no field `dts`; did you mean `dst`?"),
        ("height: 16", "height: 8", "`memset_node_params`: `height` at 8 overlaps another field"),
        ("value: 32", "value: 34", "`memset_node_params`: `value` at 34 overlaps another field, is not aligned"),
        ("      size: 48", "      size: 44", "`memset_node_params`: `width` at 40 overlaps another field, is not"),
        ("libamdhip64.so.7", "amdhip64", "`amdhip64` is no name of a shared library"),
    ];
    // Several mistakes are told at once, if they are of different places.
    let (mut left, mut rounds) = (cases.to_vec(), 0);
    while !left.is_empty() {
        let mut made = Vec::new();
        let failure = {
            let text = vireo_spec::FILES.iter().find(|(path, _)| *path == PLACE).expect("the partner").1;
            let mut text = text.to_string();
            left.retain(|case| {
                let fits = text.contains(case.0);
                if fits {
                    text = text.replacen(case.0, case.1, 1);
                    made.push(*case);
                }
                !fits
            });
            refused(|_| text.clone())
        };
        assert!(!made.is_empty(), "{left:?} are not there");
        for (_, wrong, expected) in made {
            assert!(failure.contains(expected), "{wrong}:\n{failure}\nexpected: {expected}");
        }
        rounds += 1;
    }
    assert!(rounds <= 4, "{rounds} rounds");
    let twice = |text: &str| format!("{text}{}", &text[text.find("\n- ").expect("an entry")..]);
    assert!(refused(twice).contains("the partner of the folder is declared already"));
    let failure = refused(|_| "# Nothing.\n".to_string());
    assert!(failure.contains("`init` has a name in HIP, but the folder has no `partner`"), "{failure}");
}
