//! Sessions ([`Session`]): models with state, whose functions ([`Function`]) are called with values of the host, once
//! or again and again ([`PreparedCall`](crate::PreparedCall)).

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use vireo_context::{self as vm, Context, Module};
use vireo_core::limits::Limits;
use vireo_core::status::{Result, Status};
use vireo_hal::{Device, Fence, QueueAffinity, SemaphoreFlags};
use vireo_vm::Value;

use crate::events;
use crate::input::{Input, to_values};
use crate::model::{Model, ModelBuilder};
use crate::output::Outputs;
use crate::signature::{FENCES, Signature};
use crate::tensor::{HostTensor, Tensor};

/// A model with state: globals, loaded parameters and executables.
///
/// A session is `Send + Sync` and cheap to clone; clones are the same session. One call runs at a time: calls from
/// several threads take turns; while one waits for a device, others may run. Threads that are to run at once get a
/// session each, from one [`Model`].
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    model: Model,
    context: Context,
    /// The functions that were called by name.
    functions: RwLock<HashMap<String, Function>>,
}

impl Session {
    /// The builder of a session and of its model.
    ///
    /// ```
    /// use vireo::{Session, inputs};
    ///
    /// # fn main() -> vireo::Result<()> {
    /// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).expect("the workspace exists");
    /// let session = Session::builder().device("local-sync").load("fixtures/models/abs.vmfb")?;
    /// let result: f32 = session.call("abs", inputs![-2.0f32])?.get()?;
    /// assert_eq!(result, 2.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> ModelBuilder {
        ModelBuilder::default()
    }

    pub(crate) fn new(model: Model, context: Context) -> Session {
        Session(Arc::new(Inner { model, context, functions: RwLock::default() }))
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.0.model
    }

    /// The context of the virtual machine that the session is.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// The function `name` of the main module, or `module.function`. To look a function up once is faster than to call
    /// it by name.
    ///
    /// # Errors
    /// `NOT_FOUND`, with the names that exist; `UNIMPLEMENTED` for a function that takes any number of arguments.
    pub fn function(&self, name: &str) -> Result<Function> {
        let functions = self.0.functions.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = functions.get(name) {
            return Ok(function.clone());
        }
        drop(functions);
        let model = &self.0.model;
        // The main module comes first, whatever other modules export.
        let qualified = format!("{}.{name}", model.main().name());
        let function = self.0.context.function(&qualified).or_else(|_| self.0.context.function(name))?;
        let module = function.module();
        let export = module.exports_named(function.name()).next();
        let export = export.ok_or_else(|| Status::internal("a function is not among the exports of its module"))?;
        let signature = Arc::new(Signature::of(module, &export)?);
        let function = Function {
            function,
            signature,
            device: model.device().clone(),
            limits: Arc::clone(self.0.context.limits()),
        };
        let mut functions = self.0.functions.write().unwrap_or_else(PoisonError::into_inner);
        functions.insert(name.to_string(), function.clone());
        Ok(function)
    }

    /// The signature of a function: names and types of what it takes and returns.
    ///
    /// # Errors
    /// As [`Session::function`].
    pub fn signature(&self, name: &str) -> Result<Arc<Signature>> {
        self.function(name).map(|function| function.signature)
    }

    /// Calls a function and waits for its results.
    ///
    /// # Errors
    /// As [`Session::function`] and [`Function::call`].
    pub fn call<'i>(&self, name: &str, inputs: impl AsRef<[Input<'i>]>) -> Result<Outputs> {
        self.function(name)?.call(inputs)
    }

    /// Copies a tensor to the device, for several calls.
    ///
    /// # Errors
    /// Failures of the device's allocator.
    pub fn tensor(&self, tensor: &HostTensor<'_>) -> Result<Tensor> {
        tensor.to_device(&**self.0.model.device())
    }
}

impl Model {
    /// A session, which has the state of the program to itself. Runs the initialisers of the modules, which load
    /// parameters and executables.
    ///
    /// # Errors
    /// Any error of an initialiser; if the host lacks something that the program needs, it says what.
    pub fn session(&self) -> Result<Session> {
        let make = || Ok(Session::new(self.clone(), self.context()?));
        events::made("made a session", make, |session| session.model().describe())
    }
}

impl ModelBuilder {
    /// Opens and verifies the module file at `path`, which is the main module, and makes a session of it.
    ///
    /// # Errors
    /// As [`Module::from_file`], [`ModelBuilder::build`] and [`Model::session`].
    pub fn load(self, path: impl AsRef<Path>) -> Result<Session> {
        self.build_file(path)?.session()
    }

    /// Verifies the module file in `bytes`, which is the main module, and makes a session of it. The bytes are copied.
    ///
    /// # Errors
    /// As [`Module::from_bytes`], [`ModelBuilder::build`] and [`Model::session`].
    pub fn load_bytes(self, bytes: &[u8]) -> Result<Session> {
        self.build(Module::from_bytes(bytes)?)?.session()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.0.model.main()).finish()
    }
}

/// A function of a session, which it keeps alive. Cheap to clone.
#[derive(Clone)]
pub struct Function {
    function: vm::Function,
    signature: Arc<Signature>,
    device: Arc<dyn Device>,
    limits: Arc<Limits>,
}

impl Function {
    /// The arguments and results of the function.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The same, to be kept.
    pub fn shared_signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    /// The function of the virtual machine that it is.
    pub fn vm_function(&self) -> &vm::Function {
        &self.function
    }

    /// Calls the function and waits for its results.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the number and the name of the argument, if `inputs` are not what the signature says;
    /// else the error of the program.
    pub fn call<'i>(&self, inputs: impl AsRef<[Input<'i>]>) -> Result<Outputs> {
        let mut call = self.prepare(inputs)?;
        call.run()?;
        Ok(call.into_outputs())
    }

    /// Calls the function with arguments by the names of its signature, in any order, and waits for its results.
    ///
    /// ```
    /// use vireo::{Input, Session};
    ///
    /// # fn main() -> vireo::Result<()> {
    /// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).expect("the workspace exists");
    /// let session = Session::builder().device("local-sync").load("fixtures/models/abs.vmfb")?;
    /// let outputs = session.function("abs")?.call_named([("input0", Input::from(-2.0f32))])?;
    /// assert!(outputs.by_name("output0").is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the names that there are, for one that no argument has, that several have, that is
    /// given twice or that is missing; else as [`Function::call`].
    pub fn call_named<'i, 'n>(&self, inputs: impl IntoIterator<Item = (&'n str, Input<'i>)>) -> Result<Outputs> {
        let signature = &self.signature;
        let wrong = |problem: String| Status::invalid_argument(format!("{problem}; the function is `{signature}`"));
        let mut ordered: Vec<Option<Input<'i>>> = vec![None; signature.arguments.len()];
        for (name, input) in inputs {
            let mut named = (0..ordered.len()).filter(|index| signature.arguments[*index].name == name);
            let index = match (named.next(), named.next()) {
                (Some(index), None) if !name.is_empty() => index,
                (Some(_), Some(_)) if !name.is_empty() => {
                    return Err(wrong(format!("several arguments are called `{name}`")));
                }
                _ => return Err(wrong(format!("no argument is called `{name}`"))),
            };
            if ordered[index].replace(input).is_some() {
                return Err(wrong(format!("the argument `{name}` is given twice")));
            }
        }
        let input = |(index, input): (usize, Option<Input<'i>>)| {
            input.ok_or_else(|| {
                let missing = match signature.arguments[index].name.as_str() {
                    "" => format!("argument {index} has no name, so it can be given by its position only"),
                    name => format!("the argument `{name}` is missing"),
                };
                wrong(missing)
            })
        };
        let inputs = ordered.into_iter().enumerate().map(input).collect::<Result<Vec<_>>>()?;
        self.call(inputs)
    }

    /// The values of one call, and the fence that the function signals when its results are there, if it takes fences.
    pub(crate) fn arguments(&self, inputs: &[Input<'_>]) -> Result<(Vec<Value>, Option<Fence>)> {
        let mut arguments = Vec::with_capacity(inputs.len() + FENCES);
        to_values(&self.signature, inputs, &*self.device, &mut arguments)?;
        if !self.signature.is_async {
            return Ok((arguments, None));
        }
        let done = Fence::at(self.device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::default())?, 1);
        arguments.extend([Value::NULL, done.to_ref().into()]);
        Ok((arguments, Some(done)))
    }

    /// The limits of calls.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The same, as the context has them: calls that share them do not copy them.
    pub(crate) fn shared_limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// The device of its tensors and fences.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.signature)
    }
}
