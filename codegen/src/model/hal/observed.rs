//! Which objects devices and hosts exchange, and which of them a wrapper that observes a device wraps as well.

use super::kind::{Kind, Shape};
use super::types::{Hal, Object};

/// The objects of the HAL by their role for observers of devices.
#[derive(Clone, Debug, Default)]
pub struct Observed<'a> {
    /// Objects whose calls are observed: a device and the objects it creates, then those of hosts.
    pub wrapped: Vec<&'a Object>,
    /// The number of them that devices create. Hosts create the others, and devices call them.
    pub made: usize,
    /// Objects that occur in those calls and are only numbered.
    pub numbered: Vec<&'a Object>,
}

impl<'a> Observed<'a> {
    /// Whether calls of the object called `name` are observed.
    pub fn wraps(&self, name: &str) -> bool {
        self.wrapped.iter().any(|object| object.name == name)
    }
}

impl Hal {
    /// A device and the objects that it creates, and those that these create, in the order of the files; none if there
    /// are no devices.
    pub fn made_by_devices(&self) -> Vec<&Object> {
        let mut made: Vec<&str> = self.object("device").map(|device| device.name.as_str()).into_iter().collect();
        let mut next = 0;
        while let Some(object) = made.get(next).and_then(|name| self.object(name)) {
            next += 1;
            for shape in object.methods.iter().filter_map(|method| method.result.as_ref()) {
                for found in self.objects_in(shape) {
                    if !made.contains(&found.name.as_str()) {
                        made.push(&found.name);
                    }
                }
            }
        }
        self.objects().filter(|object| made.contains(&object.name.as_str())).collect()
    }

    /// The objects that values of `shape` are or hold.
    pub fn objects_in(&self, shape: &Shape) -> Vec<&Object> {
        match &shape.kind {
            Kind::Object(name) => self.object(name).into_iter().collect(),
            Kind::Struct(name) => {
                let fields = self.structure(name).into_iter().flat_map(|structure| &structure.fields);
                fields.flat_map(|field| self.objects_in(&field.shape)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Finds the objects that observers of devices wrap.
    ///
    /// An object of a host is wrapped only if devices pass unwrapped objects to it: wrapping others would have no
    /// effect, and a device may recognise one by its type.
    pub fn observed(&self) -> Observed<'_> {
        let can_be_wrapped = |object: &&Object| !(object.concrete || object.bare || object.methods.is_empty());
        let made: Vec<&Object> = self.made_by_devices().into_iter().filter(can_be_wrapped).collect();
        let is_made = |object: &Object| made.iter().any(|other| other.name == object.name);
        let takes_made = |object: &Object| {
            let shapes = object.methods.iter().flat_map(|method| &method.args).map(|arg| &arg.shape);
            shapes.flat_map(|shape| self.objects_in(shape)).any(is_made)
        };
        let mut wrapped = made.clone();
        let handed: Vec<&Object> = made.iter().flat_map(|object| self.exchanged(object)).collect();
        for object in self.objects().filter(can_be_wrapped) {
            if handed.iter().any(|other| other.name == object.name) && !is_made(object) && takes_made(object) {
                wrapped.push(object);
            }
        }
        let is_wrapped = |object: &Object| wrapped.iter().any(|other| other.name == object.name);
        let mentioned: Vec<&Object> = wrapped.iter().flat_map(|object| self.exchanged(object)).collect();
        let is_mentioned = |object: &&Object| mentioned.iter().any(|other| other.name == object.name);
        let numbered = self.objects().filter(|object| !is_wrapped(object) && is_mentioned(object)).collect();
        Observed { made: made.len(), wrapped, numbered }
    }

    /// The objects in arguments and results of an object's methods.
    fn exchanged(&self, object: &Object) -> Vec<&Object> {
        let args = object.methods.iter().flat_map(|method| method.args.iter().map(|arg| &arg.shape));
        let results = object.methods.iter().filter_map(|method| method.result.as_ref());
        args.chain(results).flat_map(|shape| self.objects_in(shape)).collect()
    }
}
