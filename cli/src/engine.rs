//! The room between the command and the runtime.

use std::path::PathBuf;

use vireo::Status;

use crate::arguments::ModuleMode;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::values::Datum;

pub struct Session {}
pub struct Function {
    pub name: String,
    pub arguments: String,
    pub results: String,
    pub declaration: Option<String>,
}
impl Function {
    pub fn given_arguments(&self) -> usize {
        self.arguments.len()
    }
}
impl Session {
    pub fn load(_modules: &[PathBuf], _mode: ModuleMode, _devices: &[String]) -> Result<Session, Failure> {
        Err(Failure::new(Exit::LoadFailure, "loading modules").because(Status::unimplemented("loading modules")))
    }
    pub fn function(&self, _name: Option<&str>) -> Result<Function, Failure> {
        Err(Failure::new(Exit::LoadFailure, "finding functions").because(Status::unimplemented("finding functions")))
    }
    pub fn call(&self, _function: &Function, _inputs: Vec<Datum>) -> Result<Vec<Datum>, Status> {
        Err(Status::unimplemented("calls"))
    }
    pub fn statistics(&self) -> String {
        String::new()
    }
}
pub fn list_drivers() -> String {
    "".into()
}
pub fn list_devices(_: &str) -> Result<String, Failure> {
    Ok("local-sync://\n".into())
}
pub fn dump_devices(_: &str) -> Result<String, Failure> {
    Ok("".into())
}
