//! Functions of a few ops, which compiled code calls itself or does in the place of the call.

use std::fmt::Write;

use vireo_codegen::model::vm::FieldKind;

use super::ops::Pool;
use super::{CONSTANTS, Writer};

impl Writer<'_> {
    /// A function that mostly returns at once, which callers see to themselves.
    pub fn small(&mut self, params: &[(&'static str, &'static str)], results: &[&str]) {
        // The registers that have been written, by the type of what they hold.
        let mut written: Vec<(String, &str)> = params.iter().map(|(name, ty)| (name.to_string(), *ty)).collect();
        let mut next = 20;
        self.simple(&mut written, &mut next);
        let condition = self.written(&mut written, &mut next, "i32");
        match self.random.below(6) {
            0 => {
                self.finish(&mut written, &mut next, results);
                return writeln!(self.text, "}}\n").unwrap();
            }
            1..3 => {
                let (a, b) =
                    (self.written(&mut written, &mut next, "i32"), self.written(&mut written, &mut next, "i32"));
                line!(self, "%i16 = vm.cmp.lt.i32.s {a}, {b}\n  vm.cond_br %i16, ^bb1({a}->%i17), ^bb2()");
            }
            3 => line!(self, "vm.cond_br {condition}, ^bb1({condition}->%i17), ^bb2()"),
            _ => line!(self, "vm.cond_br {condition}, ^bb2(), ^bb1({condition}->%i17)"),
        }
        for block in [1, 2] {
            writeln!(self.text, "^bb{block}:").unwrap();
            let (mut written, mut next) = (written.clone(), next);
            if block == 1 {
                written.push(("%i17".to_string(), "i32"));
            }
            if self.random.chance(2) {
                self.simple(&mut written, &mut next);
            }
            if block == 2 && !self.random.chance(4) {
                let own = self.random.chance(2);
                let callee = if own { self.number } else { self.number + 1 };
                if let Some((params, results)) = self.signatures.get(callee).copied() {
                    let args = params.iter().map(|(_, ty)| self.written(&mut written, &mut next, ty));
                    let args = args.collect::<Vec<_>>().join(", ");
                    let targets = results.iter().map(|ty| register(&mut written, &mut next, ty));
                    let targets = targets.collect::<Vec<_>>().join(", ");
                    line!(self, "{targets} = vm.call @f{callee}({args})");
                }
            }
            self.finish(&mut written, &mut next, results);
        }
        writeln!(self.text, "}}\n").unwrap();
    }

    pub fn finish(&mut self, written: &mut Vec<(String, &'static str)>, next: &mut u64, results: &[&str]) {
        let values = results.iter().map(|ty| self.written(written, next, ty)).collect::<Vec<_>>().join(", ");
        line!(self, "vm.return {values}");
    }

    /// Ops that neither trap nor look at a float.
    pub fn simple(&mut self, written: &mut Vec<(String, &'static str)>, next: &mut u64) {
        for _ in 0..self.random.below(5) {
            let op = self.choose_op(Pool::Combine);
            let mut operands = Vec::new();
            for field in &op.fields {
                let ty = field.ty.map_or("i32", |ty| ty.name());
                operands.push(match field.kind {
                    FieldKind::Result => register(written, next, ty),
                    _ => self.written(written, next, ty),
                });
            }
            self.write_op_on(op, &operands);
        }
    }

    /// A register that holds a value of a type.
    pub fn written(&mut self, written: &mut Vec<(String, &'static str)>, next: &mut u64, ty: &str) -> String {
        let all: Vec<String> = written.iter().filter(|(_, of)| *of == ty).map(|(name, _)| name.clone()).collect();
        if !all.is_empty() {
            return all[self.random.below(all.len() as u64) as usize].clone();
        }
        if !Self::is_value(ty) {
            line!(self, "%r1 = vm.const.ref.zero");
            return "%r1".to_string();
        }
        let (int, ty) = match ty {
            "i32" | "f32" => ("i32", if ty == "i32" { "i32" } else { "f32" }),
            _ => ("i64", if ty == "i64" { "i64" } else { "f64" }),
        };
        let constant = register(written, next, int);
        line!(self, "{constant} = vm.const.{int} {}", self.random.choose(CONSTANTS));
        if int == ty {
            return constant;
        }
        let float = register(written, next, ty);
        line!(self, "{float} = vm.bitcast.{int}.{ty} {constant}");
        float
    }
}

/// A register of its own for a value of a type.
fn register(written: &mut Vec<(String, &'static str)>, next: &mut u64, ty: &'static str) -> String {
    if ty.starts_with('!') {
        written.push(("%r2".to_string(), ty));
        return "%r2".to_string();
    }
    let first = *next;
    *next += 2;
    let name = if ty.ends_with("64") { format!("%i{first}:{}", first + 1) } else { format!("%i{first}") };
    written.push((name.clone(), ty));
    name
}
