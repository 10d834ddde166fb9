//! Arguments and results of calls: [`Datum`]s as values of the library, and back. Called by `session`.

use vireo::hal::{self, BufferRefObject};
use vireo::inference::Output;
use vireo::vm::list::Element;
use vireo::vm::{self, List, Obj, Ref, Value};
use vireo::{Result, Session, Status};

use crate::recording;
use crate::sanitizer;
use crate::values::Datum;
use crate::values::datum::{HAL_BUFFER, VM_BUFFER};

/// How deep lists of lists are shown, and how many items: a list may contain itself.
const MAX_LIST_DEPTH: usize = 8;
const MAX_LIST_ITEMS: usize = 1 << 16;

/// The budget of copied results.
struct ResultBudget {
    /// The name of the result that is copied, if the sanitizer has to look at it and a recording has to note it.
    name: Option<String>,
    /// Items of lists.
    items: usize,
    bytes: u64,
}

impl ResultBudget {
    /// Takes bytes from the budget: one buffer may be in many lists, so copies can exceed the memory of the program.
    fn take(&mut self, bytes: u64) -> Result<()> {
        let exhausted = || Status::resource_exhausted("the results are larger than the memory limit of the program");
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(exhausted)?;
        Ok(())
    }
}

/// Copies results of at most so many bytes. With `are_results` the sanitizer sees them leave the device.
pub(super) fn to_data(results: &[Value], bytes: u64, are_results: bool) -> Result<Vec<Datum>> {
    let mut budget = ResultBudget { name: None, items: MAX_LIST_ITEMS, bytes };
    let copy = |(index, result)| {
        budget.name = are_results.then(|| format!("result[{index}]"));
        to_datum(result, 0, &mut budget)
    };
    results.iter().enumerate().map(copy).collect()
}

/// The value that a program takes. Tensors and buffers are copied to the device.
pub(super) fn to_value(session: &Session, datum: Datum) -> Result<Value> {
    Ok(match datum {
        Datum::I32(value) => value.into(),
        Datum::I64(value) => value.into(),
        Datum::F32(value) => value.into(),
        Datum::F64(value) => value.into(),
        Datum::Null => Value::NULL,
        Datum::View(tensor) => {
            let tensor = session.tensor(&tensor)?;
            Obj::<hal::BufferView>::from(tensor).into_ref().into()
        }
        Datum::Buffer { bytes, .. } => {
            let device = session.model().devices().first();
            let device = device.ok_or_else(|| Status::failed_precondition("the model has no device"))?;
            BufferRefObject::to_ref(hal::buffer_from_bytes(&**device, &bytes)?).into()
        }
        other => return Err(Status::unimplemented(format!("!{} as an argument", other.type_name()))),
    })
}

fn to_datum(value: &Value, depth: usize, budget: &mut ResultBudget) -> Result<Datum> {
    Ok(match Output::from(value.clone()) {
        Output::I32(value) => Datum::I32(value),
        Output::I64(value) => Datum::I64(value),
        Output::F32(value) => Datum::F32(value),
        Output::F64(value) => Datum::F64(value),
        Output::Reference(None) => Datum::Null,
        Output::Reference(Some(reference)) => object(&reference, depth, budget)?,
        Output::Tensor(tensor) => {
            budget.take(tensor.view().buffer().byte_length())?;
            sanitizer::leaves(&**tensor.view().buffer(), budget.name.as_deref());
            if budget.name.is_some() {
                recording::expect(tensor.view().buffer());
            }
            Datum::View(tensor.to_host()?)
        }
    })
}

fn object(reference: &Ref, depth: usize, budget: &mut ResultBudget) -> Result<Datum> {
    if let Some(buffer) = reference.get::<BufferRefObject>() {
        budget.take(buffer.byte_length())?;
        sanitizer::leaves(&**buffer, budget.name.as_deref());
        let bytes = hal::buffer_to_vec(&**buffer, buffer.byte_length())?;
        return Ok(Datum::Buffer { type_name: HAL_BUFFER, bytes });
    }
    if let Some(buffer) = reference.get::<vm::Buffer>() {
        budget.take(buffer.len() as u64)?;
        return Ok(Datum::Buffer { type_name: VM_BUFFER, bytes: buffer.to_vec() });
    }
    let Some(list) = reference.get::<List>().filter(|_| depth < MAX_LIST_DEPTH) else {
        return Ok(Datum::Object(reference.type_name()));
    };
    let mut contents = Vec::new();
    for index in 0..list.len() {
        let Some(left) = budget.items.checked_sub(1) else {
            return Err(Status::resource_exhausted(format!("the lists have more than {MAX_LIST_ITEMS} items")));
        };
        budget.items = left;
        contents.push(match list.get(index)? {
            Element::None => Datum::Null,
            Element::I8(value) => Datum::I8(value),
            Element::I16(value) => Datum::I16(value),
            Element::I32(value) => Datum::I32(value),
            Element::I64(value) => Datum::I64(value),
            Element::F32(value) => Datum::F32(value),
            Element::F64(value) => Datum::F64(value),
            Element::Ref(reference) => to_datum(&Value::Ref(reference), depth + 1, budget)?,
        });
    }
    Ok(Datum::List(contents))
}
