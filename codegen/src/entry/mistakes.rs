//! Diagnosis of an entry that cannot be deserialised: finds all of its mistakes. Called by `Entry::parse`. serde stops
//! at the first error, and a line with wrong indentation causes an error elsewhere, so the keys of the entry are
//! examined one by one.

use std::ops::Range;

use serde::de::value::Error as NoValue;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_yaml::{Mapping, Value};

use super::lines::Entry;
use crate::diag::{Diagnostics, Origin, did_you_mean};

/// Records the mistakes of `entry`, which cannot be deserialised to `T` because of `error`.
pub(super) fn record<T: DeserializeOwned>(entry: &Entry, error: &serde_yaml::Error, diagnostics: &mut Diagnostics) {
    let before = diagnostics.len();
    let known = fields_of::<T>();
    let Ok([Value::Mapping(map)]) = serde_yaml::from_str::<[Value; 1]>(&entry.text) else {
        if !indentation(entry, known, diagnostics) {
            reported(entry, error, diagnostics);
        }
        return;
    };
    let keys = entry.keys();
    for (key, lines) in &keys {
        if !known.contains(key) {
            let message = format!("unknown key `{key}`{}", expected(key, known));
            diagnostics.error(&entry.line(lines.start), message);
            continue;
        }
        // A line that is below a key by mistake makes the value of that key invalid.
        if entry.misplaced(known).is_some_and(|(origin, _)| lines.contains(&(origin.line - entry.origin.line))) {
            continue;
        }
        // The key alone, at its place, and each item of its list alone: all but one error is then that others are
        // missing.
        let mut parts = entry.items(lines.clone());
        if parts.is_empty() {
            parts.push(lines.clone());
        }
        for part in parts {
            let Some(text) = entry.only(lines.start, part.clone()) else { continue };
            let Some(error) = mistake::<T>(&text) else { continue };
            let culprits = culprits::<T>(&text, key);
            for (name, error) in &culprits {
                reported_at(entry.line(entry.line_of(part.clone(), name)), error, diagnostics);
            }
            if culprits.is_empty() {
                reported(entry, &error, diagnostics);
            }
        }
    }
    let is_misspelt = |field: &str| {
        keys.iter().any(|(key, _)| !known.contains(key) && did_you_mean(key, [field]).contains(&format!("`{field}`")))
    };
    for field in missing::<T>(map, known) {
        match entry.misplaced(&[field]) {
            Some((origin, message)) => diagnostics.error(&origin, message),
            None if is_misspelt(field) => {}
            None => diagnostics.error(&entry.origin, format!("missing key `{field}`")),
        }
    }
    if diagnostics.len() == before {
        match entry.misplaced(known) {
            Some((origin, message)) => diagnostics.error(&origin, message),
            None => reported(entry, error, diagnostics),
        }
    }
}

/// Whether a key of an entry is known and its value can be read.
pub(super) fn is_good<T: DeserializeOwned>(entry: &Entry, key: &str, lines: Range<usize>) -> bool {
    let alone = || entry.only(lines.start, lines.clone()).is_some_and(|text| mistake::<T>(&text).is_none());
    fields_of::<T>().contains(&key) && alone()
}

/// `: expected one of a b c`, or the probably intended name.
fn expected(key: &str, known: &[&str]) -> String {
    let meant = did_you_mean(key, known.iter().copied());
    if meant.is_empty() { format!(": expected one of {}", known.join(" ")) } else { meant }
}

/// The mistakes of a text, except for missing keys.
fn mistake<T: DeserializeOwned>(text: &str) -> Option<serde_yaml::Error> {
    let error = serde_yaml::from_str::<[T; 1]>(text).err()?;
    // A missing key of an item has the path of the previous item.
    (!message_of(&error).starts_with("missing field")).then_some(error)
}

/// The keys of the only item in the list under `key` that are unknown or have invalid values, with the mistakes.
fn culprits<T: DeserializeOwned>(text: &str, key: &str) -> Vec<(String, serde_yaml::Error)> {
    let entry = |item: &Mapping| {
        let list = Value::Sequence(vec![Value::Mapping(item.clone())]);
        serde_yaml::to_string(&[Mapping::from_iter([(Value::from(key), list)])]).ok()
    };
    // A missing key of an item is reported only if the item has no other mistake.
    let wrong = |item: &Mapping| {
        let error = entry(item).and_then(|text| mistake::<T>(&text));
        error.filter(|error| !message_of(error).contains("missing field `"))
    };
    let Ok([Value::Mapping(map)]) = serde_yaml::from_str::<[Value; 1]>(text) else { return Vec::new() };
    let Some(Value::Sequence(items)) = map.get(key) else { return Vec::new() };
    let [Value::Mapping(item)] = items.as_slice() else { return Vec::new() };
    let mut rest = item.clone();
    let mut culprits = Vec::new();
    while let Some(message) = wrong(&rest).map(|error| message_of(&error)) {
        // Without the key at fault the error is another one, or none.
        let at_fault = rest.keys().find(|key| {
            let mut others = rest.clone();
            others.remove(*key);
            wrong(&others).is_none_or(|error| message_of(&error) != message)
        });
        let Some(name) = at_fault.cloned() else { break };
        let alone = rest.remove(&name).and_then(|value| wrong(&Mapping::from_iter([(name.clone(), value)])));
        culprits.extend(name.as_str().map(String::from).zip(alone));
    }
    culprits
}

/// The message of an error without its path in the list of entries and without its place in the text of the entry.
fn message_of(error: &serde_yaml::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or(&text);
    text.strip_prefix(".[0].")
        .or_else(|| text.strip_prefix("[0]."))
        .or_else(|| text.strip_prefix(".[0]: "))
        .or_else(|| text.strip_prefix("[0]: "))
        .unwrap_or(text)
        .to_string()
}

/// Records an error of the YAML reader at the line that it names.
fn reported(entry: &Entry, error: &serde_yaml::Error, diagnostics: &mut Diagnostics) {
    let line = error.location().map_or(0, |location| location.line().saturating_sub(1));
    reported_at(entry.line(line), error, diagnostics);
}

/// Records an error of the YAML reader at a place.
fn reported_at(place: Origin, error: &serde_yaml::Error, diagnostics: &mut Diagnostics) {
    let mut message = without_index(&message_of(error));
    // serde lists what it expects; the nearest of them comes first.
    if let Some((start, rest)) = message.split_once("unknown field `")
        && let Some((name, known)) = rest.split_once('`')
    {
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        message = format!("{}unknown key `{name}`{}", start, expected(name, &known));
    } else if let Some((start, name)) = message.split_once("missing field ") {
        message = format!("{}missing key {name}", start);
    }
    diagnostics.error(&place, message);
}

/// `fields[0].kind: ` becomes `fields.kind: `: items are looked at alone, so each is the first one.
fn without_index(message: &str) -> String {
    match message.split_once("[0]") {
        Some((key, rest)) if key.chars().all(|letter| letter.is_alphanumeric() || letter == '_') => {
            format!("{key}{rest}")
        }
        _ => message.to_string(),
    }
}

/// Records lines that are not indented as lines of an entry are. False if there are none.
fn indentation(entry: &Entry, known: &[&str], diagnostics: &mut Diagnostics) -> bool {
    let before = diagnostics.len();
    for (index, line) in entry.text.lines().enumerate() {
        let text = line.trim_start_matches(' ');
        if line.len() - text.len() == 1 && !text.starts_with('#') {
            let message = "indented by one space: the keys of an entry are indented by two";
            diagnostics.error_at((entry.line(index), 2), message);
        }
    }
    if diagnostics.len() == before
        && let Some((origin, message)) = entry.misplaced(known)
    {
        diagnostics.error(&origin, message);
    }
    diagnostics.len() > before
}

/// The keys that a `T` needs and `map` does not have.
fn missing<T: DeserializeOwned>(mut map: Mapping, known: &'static [&'static str]) -> Vec<&'static str> {
    map.retain(|key, _| key.as_str().is_some_and(|key| known.contains(&key)));
    let alone = |key: &Value, value: &Value| {
        let map = Mapping::from_iter([(key.clone(), value.clone())]);
        serde_yaml::from_value::<T>(Value::Mapping(map)).err().map(|error| message_of(&error))
    };
    let fits =
        |key: &Value, value: &Value| alone(key, value).is_none_or(|message| message.starts_with("missing field"));
    // Values of the wrong type were reported; any other in their place lets serde go on.
    let substitutes = [
        Value::Null,
        Value::Number(0.into()),
        Value::String(String::new()),
        Value::Sequence(Vec::new()),
        Value::Mapping(Mapping::new()),
        Value::Bool(false),
    ];
    let substitute = |key: &Value| substitutes.iter().find(|value| fits(key, value)).cloned().unwrap_or(Value::Null);
    for (key, value) in &mut map {
        if !fits(key, value) {
            *value = substitute(key);
        }
    }
    let mut fields = Vec::new();
    loop {
        let error = serde_yaml::from_value::<T>(Value::Mapping(map.clone())).err();
        let message = error.map(|error| message_of(&error)).unwrap_or_default();
        let name = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
        let Some(field) = known.iter().find(|field| Some(**field) == name && !fields.contains(*field)) else {
            return fields;
        };
        fields.push(*field);
        let key = Value::String(field.to_string());
        let value = substitute(&key);
        map.insert(key, value);
    }
}

/// The names of the fields of a struct that serde derives: it hands them to the deserializer.
fn fields_of<T: DeserializeOwned>() -> &'static [&'static str] {
    struct Names<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Names<'_> {
        type Error = NoValue;

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, NoValue> {
            *self.0 = fields;
            Err(NoValue::custom("only the names are wanted"))
        }

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NoValue> {
            Err(NoValue::custom("no struct"))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut names: &'static [&'static str] = &[];
    let _ = T::deserialize(Names(&mut names));
    names
}
