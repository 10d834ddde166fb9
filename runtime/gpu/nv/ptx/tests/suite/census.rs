//! Forms that compilers write are all in the tables.

use vireo_ptx::isa::{Form, InstructionInfo, NoForm};

/// Operands of a form that has several numbers of them.
fn counts(info: &InstructionInfo) -> Vec<usize> {
    let mut counts: Vec<usize> = info.variants.iter().map(|variant| variant.operands.len()).collect();
    counts.push(0);
    counts
}

#[test]
fn every_form_of_the_census_is_known() {
    let mut missing = Vec::new();
    let mut count = 0;
    for form in include_str!("../forms.txt").lines().filter(|line| !line.starts_with('#')) {
        count += 1;
        let name = form.split('.').next().unwrap_or_default();
        let info = vireo_ptx::instructions::INSTRUCTIONS.iter().find(|info| info.name == name);
        let found = info.is_some_and(|info| counts(info).into_iter().any(|count| Form::find(form, count).is_ok()));
        if !found {
            missing.push(form);
        }
    }
    assert!(missing.is_empty(), "of {count} forms {} are missing: {missing:?}", missing.len());
}

#[test]
fn forms_are_printed_as_they_are_written() {
    for text in ["add.rn.ftz.f32", "setp.lt.s32", "mad.lo.cc.u32", "ld.global.nc.L1::no_allocate.v4.f32"] {
        let counts = [2, 3, 4];
        let form = counts.into_iter().find_map(|count| Form::find(text, count).ok()).expect(text);
        assert_eq!(form.text(), text);
    }
    // The headers of cooperative groups and of atomics of C++ write some so.
    for (text, count, printed) in [
        ("atom.add.release.gpu.u32", 3, "atom.release.gpu.add.u32"),
        ("fence.gpu.sc", 0, "fence.sc.gpu"),
        ("add.f32.rn", 3, "add.rn.f32"),
        ("cvt.ftz.rzi.s32.f32", 2, "cvt.rzi.ftz.s32.f32"),
    ] {
        assert_eq!(Form::find(text, count).expect(text).text(), printed);
    }
    assert!(matches!(Form::find("add.f32.f32", 3), Err(NoForm::Suffixes)));
    assert!(matches!(Form::find("add.s32", 2), Err(NoForm::Operands)));
    assert!(matches!(Form::find("ad.s32", 3), Err(NoForm::Opcode)));
    assert!(matches!(Form::find("tcgen05.mma", 3), Err(NoForm::Refused(_))));
    assert!(matches!(Form::find("cp.async.bulk.commit_group", 0), Err(NoForm::Refused(_))));
}
