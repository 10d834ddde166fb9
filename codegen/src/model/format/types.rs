//! The types of the model of formats. The readers and checks beside this file create and check them; emitters use them.

use super::path::ShownField;
use crate::diag::Origin;
use crate::model::api::Api;

/// Every entry of the folder of a format.
#[derive(Clone, Debug, Default)]
pub struct Format {
    /// Its constants, codes and layouts.
    pub api: Api,
    /// Payloads of records, by number.
    pub payloads: Vec<Payload>,
    /// The fields of elements in dumps.
    pub parts: Vec<PartForm>,
    /// Operations.
    pub operations: Vec<Operation>,
    /// Methods of the HAL that no operation stands for.
    pub unrecorded: Vec<Unrecorded>,
    /// Types of chunks, in the order of the specs.
    pub contents: Vec<Content>,
    /// Rows of exports.
    pub rows: Vec<Row>,
}

/// A payload: a layout with a number.
#[derive(Clone, Debug)]
pub struct Payload {
    /// The layout, which is called like it.
    pub name: String,
    /// Its number.
    pub code: u32,
    /// The fields of a dump for people.
    pub text: Vec<ShownField>,
    /// The fields of a dump for programs.
    pub json: Vec<ShownField>,
    /// Where it is declared.
    pub origin: Origin,
}

/// The fields of an element in dumps.
#[derive(Clone, Debug)]
pub struct PartForm {
    /// The layout of the element.
    pub name: String,
    /// The fields of a dump for people.
    pub text: Vec<ShownField>,
    /// The fields of a dump for programs.
    pub json: Vec<ShownField>,
    /// Where it is declared.
    pub origin: Origin,
}

/// The way in which a replay treats a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// It calls the method.
    Call,
    /// It goes on with the next record.
    Skip,
    /// It cannot go on.
    Refuse,
    /// It tells who measures scopes.
    Scope,
}

/// A record that stands for a method of the HAL.
#[derive(Clone, Debug)]
pub struct Operation {
    /// `device.queue_fill`
    pub name: String,
    /// Its number.
    pub code: u32,
    /// Its payload, if it has one.
    pub payload: Option<String>,
    /// Another payload that it may have.
    pub or: Option<String>,
    /// The object and method of the HAL, if it stands for one.
    pub method: Option<(String, String)>,
    /// The way in which a replay treats it.
    pub replay: Replay,
    /// The object that it makes.
    pub makes: Option<String>,
    /// Each argument of the method with the paths in the payload that it becomes.
    pub arguments: Option<Vec<(String, Vec<String>)>>,
    /// The reason why a replay does more than to call the method, in a function of its own.
    pub by_hand: Option<String>,
    /// Where it is declared.
    pub origin: Origin,
}

/// A method of the HAL that no operation stands for.
#[derive(Clone, Debug)]
pub struct Unrecorded {
    /// The object and the method.
    pub method: (String, String),
    /// The reason.
    pub reason: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A type of chunks: a name for a layout whose values fill them.
#[derive(Clone, Debug)]
pub struct Content {
    /// `queue_events`
    pub name: String,
    /// Its name in files, after the prefix of all: `queue-events`.
    pub text: String,
    /// The layout of its records.
    pub layout: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A row of exports: the projection of a record.
#[derive(Clone, Debug)]
pub struct Row {
    /// `queue_event`
    pub name: String,
    /// The type of the chunks whose records it shows.
    pub content: String,
    /// Its fields.
    pub json: Vec<ShownField>,
    /// Where it is declared.
    pub origin: Origin,
}
