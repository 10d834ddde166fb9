//! The check of one handler: follows its instructions to its jumps, calls and returns. Called by `handlers`.
//!
//! A handler continues with a jump to an address it loaded, or to another handler by name. It may return only where it
//! stops, which it says by zero. What it calls must be on the list of the rules, and nothing is called by an address.

use std::collections::HashMap;

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use super::image::{Function, Image};
use super::rules::Rules;

/// Registers that callees leave as they are.
const PRESERVED: [Register; 6] =
    [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

/// The findings in a handler.
#[derive(Debug, Default)]
pub struct Findings {
    pub instructions: usize,
    /// The functions that it calls, each once.
    pub calls: Vec<String>,
    pub problems: Vec<String>,
}

/// Judges `function`.
pub fn check(function: &Function<'_>, image: &Image<'_>, rules: &Rules) -> Findings {
    Check::new(function, image, rules).run()
}

struct Check<'a> {
    function: &'a Function<'a>,
    image: &'a Image<'a>,
    rules: &'a Rules,
    code: Vec<Instruction>,
    /// For each instruction, those that may run before it.
    before: Vec<Vec<usize>>,
    info: InstructionInfoFactory,
    findings: Findings,
}

impl<'a> Check<'a> {
    fn new(function: &'a Function<'a>, image: &'a Image<'a>, rules: &'a Rules) -> Check<'a> {
        let decoder = Decoder::with_ip(64, function.bytes, function.address, DecoderOptions::NONE);
        let code: Vec<Instruction> = decoder.into_iter().collect();
        let places: HashMap<u64, usize> = code.iter().enumerate().map(|(index, op)| (op.ip(), index)).collect();
        let mut check = Check {
            function,
            image,
            rules,
            before: vec![Vec::new(); code.len()],
            code,
            info: InstructionInfoFactory::new(),
            findings: Findings::default(),
        };
        for index in 0..check.code.len() {
            let op = check.code[index];
            let flow = op.flow_control();
            if matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
                && check.named(&op).is_none()
                && let Some(target) = places.get(&op.near_branch_target())
            {
                check.before[*target].push(index);
            }
            if check.goes_on(&op)
                && let Some(before) = check.before.get_mut(index + 1)
            {
                before.push(index);
            }
        }
        check
    }

    /// Whether execution may continue at the next instruction.
    fn goes_on(&self, op: &Instruction) -> bool {
        match op.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch => true,
            FlowControl::Call | FlowControl::IndirectCall => {
                !self.named(op).is_some_and(|name| self.rules.never_returns(name))
            }
            _ => false,
        }
    }

    fn run(mut self) -> Findings {
        self.findings.instructions = self.code.len();
        let mut jumps = 0;
        for index in 0..self.code.len() {
            let op = self.code[index];
            match op.flow_control() {
                FlowControl::Call | FlowControl::IndirectCall => self.call(index),
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                    jumps += usize::from(self.branch(index));
                }
                FlowControl::IndirectBranch if self.is_loaded(index) => jumps += 1,
                FlowControl::IndirectBranch => self.problem(&op, "a jump to an address that was not just loaded"),
                FlowControl::Return if !self.is_zero(index, Register::RAX) => {
                    self.problem(&op, "returns something else than zero, which is how a handler stops");
                }
                FlowControl::Interrupt | FlowControl::XbeginXabortXend => {
                    self.problem(&op, "has no place in a handler")
                }
                _ if op.code() == Code::INVALID => self.problem(&op, "is no instruction"),
                _ => {}
            }
        }
        if self.code.last().is_none_or(|op| self.goes_on(op)) {
            self.findings.problems.push("runs on after its end".into());
        }
        if jumps == 0 && !self.rules.is_stop(&self.function.name) {
            self.findings.problems.push("no jump to the next handler".into());
        }
        self.findings
    }

    fn problem(&mut self, op: &Instruction, what: &str) {
        let offset = op.ip() - self.function.address;
        self.findings.problems.push(format!("{:?} at {offset:#x}: {what}", op.mnemonic()));
    }

    /// The name of what an instruction refers to, if that is outside of the function.
    fn named(&self, op: &Instruction) -> Option<&'a str> {
        let (image, section) = (self.image, self.function.section);
        image.relocated(section, op.ip()..op.next_ip()).or_else(|| {
            if op.is_ip_rel_memory_operand() {
                image.slot(op.ip_rel_memory_address())
            } else if op.op0_kind() == OpKind::NearBranch64 {
                let target = op.near_branch_target();
                let inside =
                    self.function.address < target && target < self.function.address + self.function.bytes.len() as u64;
                if inside { None } else { image.function_at(section, target).or(Some("an unknown place")) }
            } else {
                None
            }
        })
    }

    fn call(&mut self, index: usize) {
        let op = self.code[index];
        let Some(name) = self.callee(index) else {
            return self.problem(&op, "a call of an address, not of a name");
        };
        if !self.rules.may_call(name) {
            self.problem(&op, &format!("a call of {name}, which handlers.txt does not list"));
        }
        if !self.findings.calls.iter().any(|call| call == name) {
            self.findings.calls.push(name.to_string());
        }
    }

    /// The name of what is called: that of a function, or that of a slot which the loader fills in, be it by way of a
    /// register.
    fn callee(&mut self, index: usize) -> Option<&'a str> {
        let op = self.code[index];
        if op.op0_kind() != OpKind::Register {
            let by_name = op.flow_control() == FlowControl::Call || op.is_ip_rel_memory_operand();
            return self.named(&op).filter(|_| by_name);
        }
        let (image, section) = (self.image, self.function.section);
        let slot = |op: &Instruction| {
            let loads = op.code() == Code::Mov_r64_rm64 && op.is_ip_rel_memory_operand();
            let name =
                image.relocated(section, op.ip()..op.next_ip()).or_else(|| image.slot(op.ip_rel_memory_address()));
            name.filter(|_| loads)
        };
        let mut names = Vec::new();
        let right = self.all_writes(index, op.op0_register().full_register(), false, |op| {
            names.extend(slot(op));
            slot(op).is_some()
        });
        let first = *names.first()?;
        (right && names.iter().all(|name| *name == first)).then_some(first)
    }

    /// Whether the target of a branch by name is another handler.
    fn branch(&mut self, index: usize) -> bool {
        let op = self.code[index];
        let Some(name) = self.named(&op) else { return false };
        if !self.rules.is_handler(name) {
            self.problem(&op, &format!("a jump to {name}, which is no handler"));
        }
        !self.rules.is_stop(name)
    }

    /// Whether an indirect branch leads to an address that was loaded from a cell. A table in the code has distances,
    /// to be added.
    fn is_loaded(&mut self, index: usize) -> bool {
        let op = self.code[index];
        match op.op0_kind() {
            OpKind::Memory => has_base(&op),
            OpKind::Register => {
                let register = op.op0_register().full_register();
                self.all_writes(index, register, false, |op| op.code() == Code::Mov_r64_rm64 && has_base(op))
            }
            _ => false,
        }
    }

    /// Whether a register is zero whenever an instruction is reached.
    fn is_zero(&mut self, index: usize, register: Register) -> bool {
        self.all_writes(index, register, true, |op| {
            let same = op.op0_kind() == OpKind::Register && op.op1_kind() == OpKind::Register;
            let cleared =
                matches!(op.code(), Code::Xor_r32_rm32 | Code::Xor_rm32_r32 | Code::Xor_r64_rm64 | Code::Xor_rm64_r64);
            let moved = matches!(op.code(), Code::Mov_r32_imm32 | Code::Mov_rm32_imm32 | Code::Mov_rm64_imm32);
            (cleared && same && op.op0_register() == op.op1_register()) || (moved && op.immediate(1) == 0)
        })
    }

    /// Whether going from one instruction to another says that a register is zero: a branch on a test of the register,
    /// whose upper bits are zero if only the lowest byte is tested.
    fn says_zero(&self, from: usize, to: usize, register: Register) -> bool {
        let (branch, taken) = (&self.code[from], self.code[from].near_branch_target() == self.code[to].ip());
        let equal = match branch.mnemonic() {
            Mnemonic::Je => taken,
            Mnemonic::Jne => !taken,
            _ => false,
        };
        let Some(test) = from.checked_sub(1).filter(|test| equal && self.before[from] == [*test]) else { return false };
        let op = &self.code[test];
        let tests = matches!(op.code(), Code::Test_rm32_r32 | Code::Test_rm64_r64 | Code::Test_rm8_r8)
            && op.op0_register() == op.op1_register()
            && op.op0_register().full_register() == register;
        let extended = || {
            let write =
                test.checked_sub(1).filter(|write| self.before[test] == [*write]).map(|write| &self.code[write]);
            write.is_some_and(|op| op.code() == Code::Movzx_r32_rm8 && op.op0_register().full_register() == register)
        };
        tests && (op.code() != Code::Test_rm8_r8 || extended())
    }

    /// Whether on every way to an instruction the last one to write `register` fulfils `right`, or, if `zero` is
    /// enough, a branch has found the register to be zero. Calls write every register that
    /// callees may use.
    fn all_writes(
        &mut self,
        index: usize,
        register: Register,
        zero: bool,
        mut right: impl FnMut(&Instruction) -> bool,
    ) -> bool {
        let mut seen = vec![false; self.code.len()];
        let mut open = vec![index];
        while let Some(index) = open.pop() {
            // The register still is what the caller passed.
            if self.before[index].is_empty() {
                return false;
            }
            for before in self.before[index].clone() {
                let op = self.code[before];
                if zero && self.says_zero(before, index, register) {
                    continue;
                }
                let calls = matches!(op.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
                if calls && !PRESERVED.contains(&register) {
                    return false;
                }
                if self.writes(&op, register) {
                    if !right(&op) {
                        return false;
                    }
                } else if !std::mem::replace(&mut seen[before], true) {
                    // The entry is reached from outside as well.
                    if before == 0 {
                        return false;
                    }
                    open.push(before);
                }
            }
        }
        true
    }

    fn writes(&mut self, op: &Instruction, register: Register) -> bool {
        self.info.info(op).used_registers().iter().any(|used| {
            let writes = matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            writes && used.register().full_register() == register
        })
    }
}

/// Whether the memory operand counts from a register, not from an address in the code as tables do.
fn has_base(op: &Instruction) -> bool {
    op.op_kinds().any(|kind| kind == OpKind::Memory)
        && op.memory_base() != Register::None
        && !op.is_ip_rel_memory_operand()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "handlers h\nstop h::stop\ncall helper\nend panic";

    /// The calls and problems of a handler of these bytes, which refers to names at some of its bytes.
    fn findings(bytes: &[u8], relocations: &[(u64, &str)]) -> (Vec<String>, Vec<String>) {
        let function = Function { name: "h::f".into(), section: 0, address: 0, bytes };
        let findings = check(&function, &Image::with_relocations(relocations), &Rules::parse(RULES).unwrap());
        (findings.calls, findings.problems)
    }

    fn problems(bytes: &[u8], relocations: &[(u64, &str)]) -> Vec<String> {
        findings(bytes, relocations).1
    }

    #[test]
    fn jumps_and_stops_are_in_order() {
        // jmp [rdi+16]
        assert_eq!(problems(&[0xFF, 0x67, 0x10], &[]), [""; 0]);
        // mov rax, [rdi+rax]; add rdi, 16; jmp rax
        assert_eq!(problems(&[0x48, 0x8B, 0x04, 0x07, 0x48, 0x83, 0xC7, 0x10, 0xFF, 0xE0], &[]), [""; 0]);
        // test esi, esi; je +3; jmp [rdi+16]; xor eax, eax; mov [rdx], rdi; ret
        let stops = [0x85, 0xF6, 0x74, 0x03, 0xFF, 0x67, 0x10, 0x31, 0xC0, 0x48, 0x89, 0x3A, 0xC3];
        assert_eq!(problems(&stops, &[]), [""; 0]);
        // jmp h::g
        assert_eq!(problems(&[0xE9, 0, 0, 0, 0], &[(1, "h::g")]), [""; 0]);
    }

    #[test]
    fn calls_are_those_of_the_list() {
        // push rbx; call NAME; pop rbx; jmp [rdi+16]
        let code = [0x53, 0xE8, 0, 0, 0, 0, 0x5B, 0xFF, 0x67, 0x10];
        assert_eq!(findings(&code, &[(2, "helper")]), (vec!["helper".to_string()], vec![]));
        assert_eq!(problems(&code, &[(2, "h::g")]), ["Call at 0x1: a call of h::g, which handlers.txt does not list"]);
        // The distance is 0: to the middle of the handler.
        assert_eq!(problems(&code, &[]), ["Call at 0x1: a call of an address, not of a name"]);
        let outside = [0x53, 0xE8, 0, 0, 0, 1, 0x5B, 0xFF, 0x67, 0x10];
        assert_eq!(
            problems(&outside, &[]),
            ["Call at 0x1: a call of an unknown place, which handlers.txt does not list"]
        );
        // jmp [rdi+16]; call panic
        assert_eq!(problems(&[0xFF, 0x67, 0x10, 0xE8, 0, 0, 0, 0], &[(4, "panic")]), [""; 0]);
        assert_eq!(problems(&[0xFF, 0x67, 0x10, 0xE8, 0, 0, 0, 0], &[(4, "helper")]), ["runs on after its end"]);
    }

    #[test]
    fn addresses_are_not_called() {
        // call [rax+8]; jmp [rdi+16]
        let called = "Call at 0x0: a call of an address, not of a name";
        assert_eq!(problems(&[0xFF, 0x50, 0x08, 0xFF, 0x67, 0x10], &[]), [called]);
        // call [rip+SLOT]; jmp [rdi+16]
        let slot = [0xFF, 0x15, 0, 0, 0, 0, 0xFF, 0x67, 0x10];
        assert_eq!(findings(&slot, &[(2, "helper")]), (vec!["helper".to_string()], vec![]));
        assert_eq!(problems(&slot, &[]), [called]);
        // mov rbp, [rip+SLOT]; call rbp; call rbp; jmp [rdi+16]
        let register = [0x48, 0x8B, 0x2D, 0, 0, 0, 0, 0xFF, 0xD5, 0xFF, 0xD5, 0xFF, 0x67, 0x10];
        assert_eq!(findings(&register, &[(3, "helper")]), (vec!["helper".to_string()], vec![]));
        assert_eq!(problems(&register, &[]).len(), 2);
        // The same with rax, which the first call changes.
        let changed = [0x48, 0x8B, 0x05, 0, 0, 0, 0, 0xFF, 0xD0, 0xFF, 0xD0, 0xFF, 0x67, 0x10];
        assert_eq!(problems(&changed, &[(3, "helper")]), ["Call at 0x9: a call of an address, not of a name"]);
    }

    #[test]
    fn a_handler_jumps_on() {
        // xor eax, eax; ret
        assert_eq!(problems(&[0x31, 0xC0, 0xC3], &[]), ["no jump to the next handler"]);
        // jmp h::stop
        assert_eq!(problems(&[0xE9, 0, 0, 0, 0], &[(1, "h::stop")]), ["no jump to the next handler"]);
        // jmp helper: its result would be taken for that of a handler.
        assert_eq!(
            problems(&[0xE9, 0, 0, 0, 0], &[(1, "helper")]),
            ["Jmp at 0x0: a jump to helper, which is no handler"]
        );
        // nop
        assert_eq!(problems(&[0x90], &[]), ["runs on after its end", "no jump to the next handler"]);
        // movsxd rax, [rcx+rax*4]; add rax, rcx; jmp rax: a table of its own.
        assert_eq!(
            problems(&[0x48, 0x63, 0x04, 0x81, 0x48, 0x01, 0xC8, 0xFF, 0xE0], &[]),
            ["Jmp at 0x7: a jump to an address that was not just loaded", "no jump to the next handler"]
        );
    }

    #[test]
    fn a_call_of_the_next_handler_is_found() {
        // sub rsp, 8; call [rdi+16]; add rsp, 8; ret
        assert_eq!(
            problems(&[0x48, 0x83, 0xEC, 0x08, 0xFF, 0x57, 0x10, 0x48, 0x83, 0xC4, 0x08, 0xC3], &[]),
            [
                "Call at 0x4: a call of an address, not of a name",
                "Ret at 0xb: returns something else than zero, which is how a handler stops",
                "no jump to the next handler"
            ]
        );
    }

    #[test]
    fn what_is_returned_is_zero_on_every_way() {
        let other = "returns something else than zero, which is how a handler stops";
        // jmp [rdi+16]; mov eax, 1; ret
        assert_eq!(problems(&[0xFF, 0x67, 0x10, 0xB8, 1, 0, 0, 0, 0xC3], &[]), [format!("Ret at 0x8: {other}")]);
        // jmp [rdi+16]; ret
        assert_eq!(problems(&[0xFF, 0x67, 0x10, 0xC3], &[]), [format!("Ret at 0x3: {other}")]);
        // movzx eax, al; test al, al; je +3; jmp [rdi+16]; ret
        let tested = [0x0F, 0xB6, 0xC0, 0x84, 0xC0, 0x74, 0x03, 0xFF, 0x67, 0x10, 0xC3];
        assert_eq!(problems(&tested, &[]), [""; 0]);
        // The same without the first instruction, and with `jne`.
        assert_eq!(problems(&tested[3..], &[]), [format!("Ret at 0x7: {other}")]);
        let not_zero = [0x0F, 0xB6, 0xC0, 0x84, 0xC0, 0x75, 0x03, 0xFF, 0x67, 0x10, 0xC3];
        assert_eq!(problems(&not_zero, &[]), [format!("Ret at 0xa: {other}")]);
        // test esi, esi; je +5; jne +2; xor eax, eax; ret; jmp [rdi+16]: one way to the `ret` misses the `xor`.
        let code = [0x85, 0xF6, 0x74, 0x05, 0x75, 0x02, 0x31, 0xC0, 0xC3, 0xFF, 0x67, 0x10];
        assert_eq!(problems(&code, &[]), [format!("Ret at 0x8: {other}")]);
    }
}
