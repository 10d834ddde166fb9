//! Decoder, disassembler and encoder, compared with the corpus: words and text of instructions as LLVM 19 writes them.
//! `corpus/make.py` makes it.

use std::collections::BTreeSet;

use vireo_gfx::isa::{Field, INSTRUCTIONS, Slot};
use vireo_gfx::{DecodeError, Encoding, Instruction};

const CORPUS: &str = include_str!("corpus/instructions.txt");

fn corpus() -> impl Iterator<Item = (Vec<u32>, &'static str)> {
    CORPUS.lines().map(|line| {
        let (words, text) = line.split_once(" | ").expect("words and text");
        (words.split(' ').map(|word| u32::from_str_radix(word, 16).expect("a word")).collect(), text)
    })
}

#[test]
fn the_text_is_that_of_llvm() {
    let mut wrong = Vec::new();
    for (words, text) in corpus() {
        match Instruction::decode(&words) {
            Ok(instruction) => {
                if instruction.to_string() != text || instruction.length as usize != words.len() {
                    wrong.push(format!("{words:08x?}: {text}\n    but got {instruction}"));
                }
            }
            Err(error) => wrong.push(format!("{words:08x?}: {text}\n    {error}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), corpus().count(), wrong.join("\n"));
}

/// Words are rebuilt from the values of all fields, so each bit of an instruction is in a field or fixed.
#[test]
fn fields_make_the_words() {
    for (words, text) in corpus() {
        let decoded = Instruction::decode(&words).expect(text);
        let mut built = Instruction::new(decoded.opcode, decoded.encoding).expect(text);
        for field in decoded.encoding.info().fields.iter().filter(|field| field.field != Field::Op) {
            built.set(field.field, decoded.field(field.field));
        }
        if let Some(word) = decoded.extra_word() {
            built.set_extra_word(word);
        }
        assert_eq!(built.encode(), words, "{text}");
    }
}

#[test]
fn the_corpus_has_every_form_of_every_instruction() {
    let mut seen = BTreeSet::new();
    for (words, text) in corpus() {
        let instruction = Instruction::decode(&words).expect(text);
        seen.insert((instruction.opcode, instruction.encoding));
        seen.extend(instruction.opcode_y().map(|opcode| (opcode, Encoding::Vopd)));
    }
    let forms = INSTRUCTIONS.iter().flat_map(|info| info.forms.iter().map(move |(encoding, _)| (info, *encoding)));
    // LLVM 19 does not know the register halves that these need.
    let missing: Vec<String> = forms
        .filter(|(info, encoding)| info.name != "v_mov_b16" && !seen.contains(&(info.opcode, *encoding)))
        .map(|(info, encoding)| format!("{} as {}", info.name, encoding.info().name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn words_that_are_no_instruction_are_refused() {
    assert_eq!(Instruction::decode(&[]), Err(DecodeError::Truncated));
    assert_eq!(Instruction::decode(&[0xD503_0000]), Err(DecodeError::Truncated));
    assert_eq!(Instruction::decode(&[0x8000_00FF]), Err(DecodeError::Truncated), "the literal is missing");
    assert_eq!(Instruction::decode(&[0xFFFF_FFFF]), Err(DecodeError::UnknownEncoding(0xFFFF_FFFF)));
    assert_eq!(Instruction::decode(&[0xBFFF_0000]), Err(DecodeError::UnknownOpcode(Encoding::Sopp, 0x7F)));
    let mut state = 1u64;
    for _ in 0..200_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let words = [state as u32, (state >> 32) as u32, !(state >> 16) as u32];
        if let Ok(instruction) = Instruction::decode(&words) {
            assert_eq!(instruction.encode(), &words[..instruction.length as usize]);
            assert!(!instruction.to_string().is_empty());
            assert!(instruction.operand(Slot::K).is_none_or(|_| instruction.length > 1));
        }
    }
}
