//! Texts of layouts: each layout of the specs that drivers, packet processors and kernels share has one, with every
//! field and every bit field.

use std::collections::BTreeMap;

use vireo_codegen::model::api::Plain;
use vireo_codegen::model::hal::{Layout, LayoutType};
use vireo_codegen::{Spec, load};
use vireo_hsa::command_buffer::*;
use vireo_hsa::kernarg::ImplicitArgs;
use vireo_hsa::kernel_descriptor::KernelDescriptor;
use vireo_hsa::packet::*;
use vireo_hsa::pm4::*;
use vireo_hsa::queue::*;
use vireo_hsa::signal::AmdSignal;
use vireo_hsa::topology::TopologyScheduling;

/// The texts of values of these types whose bits are all set, by the names of their layouts.
macro_rules! texts {
    ($($layout:ty),* $(,)?) => {
        [$(<$layout>::read(&[0xff; <$layout>::SIZE]).to_string()),*].into_iter().map(|text| {
            (text.split('{').next().expect("a name").to_string(), text)
        }).collect()
    };
}

/// The fields of a layout, and those of the words and layouts in it.
fn fields<'a>(spec: &'a Spec, layout: &'a Layout, names: &mut Vec<&'a str>) {
    for field in &layout.fields {
        names.push(&field.name);
        let LayoutType::Layout(name) = &field.ty else { continue };
        match spec.api("amdgpu").expect("amdgpu").plain(name) {
            Some(Plain::Word(word)) => names.extend(word.fields.iter().map(|field| field.name.as_str())),
            Some(Plain::Layout(inner)) => fields(spec, inner, names),
            _ => {}
        }
    }
}

#[test]
fn every_layout_has_a_text_with_every_field() {
    let texts: BTreeMap<String, String> = texts![
        AgentDispatchPacket,
        AmdQueue,
        AmdSignal,
        BarrierAndPacket,
        BarrierCommand,
        BarrierOrPacket,
        BarrierValuePacket,
        BindingSource,
        BranchCommand,
        CommandBlockHeader,
        CommandHeader,
        CondBranchCommand,
        CopyCommand,
        DispatchCommand,
        FillCommand,
        HsaQueue,
        ImplicitArgs,
        KernelDescriptor,
        KernelDispatchPacket,
        Pm4FixupEntry,
        Pm4IbPacket,
        Pm4IndirectBuffer,
        Pm4WaitRegMem64,
        ReturnCommand,
        TopologyScheduling,
        UpdateCommand,
        VendorPacketHeader,
    ];
    let spec = load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let mut count = 0;
    // The types of the library in C are values of functions, not bytes that are shared.
    for layout in spec
        .api("amdgpu")
        .expect("amdgpu")
        .files
        .iter()
        .filter(|file| file.stem != "hsa")
        .flat_map(|file| &file.layouts)
    {
        let text = texts.get(&layout.name).unwrap_or_else(|| panic!("there is no text of {}", layout.name));
        let mut names = Vec::new();
        fields(&spec, layout, &mut names);
        let words: Vec<&str> = text.split(|character: char| !character.is_alphanumeric() && character != '_').collect();
        for name in names {
            assert!(words.contains(&name), "{text}\nhas no {name}");
        }
        count += 1;
    }
    assert_eq!(count, texts.len());
}
