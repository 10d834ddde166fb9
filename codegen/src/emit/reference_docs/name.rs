//! A name of the manual: what it stands for, and where it is described. `Page` notes one for each thing that it
//! describes, and `names` lists them.

macro_rules! kinds {
    ($($variant:ident $text:literal,)*) => {
        /// The kind of thing that a name stands for. Of names that a search finds equally good, those of an earlier
        /// kind come first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum NameKind { $($variant,)* }

        impl NameKind {
            /// The texts of all kinds, in order.
            pub const TEXTS: &[&str] = &[$($text),*];
        }
    };
}

kinds! {
    Op "op",
    Instruction "GPU instruction",
    Primitive "primitive",
    Object "HAL object",
    Method "method",
    Export "export",
    Flag "flag",
    Module "module",
    Status "status code",
    Packet "packet or command",
    Layout "layout",
    Word "bit fields",
    Struct "struct",
    Table "table",
    Enum "enum",
    Bits "bits",
    Code "code",
    Union "union",
    Record "record",
    Words "words",
    ReferenceType "reference type",
    Encoding "encoding",
    FieldKind "field kind",
    Letter "letter",
    Function "function",
    Handle "handle",
    Constant "constant",
    OpcodeSet "opcode set",
    Feature "feature",
    State "processor state",
    Facet "facet",
    Family "family",
    Format "format",
    Convention "convention",
    Field "field",
    Value "value",
    Page "page",
    Section "section",
}

impl NameKind {
    /// The text for readers.
    pub fn text(self) -> &'static str {
        Self::TEXTS[self as usize]
    }

    /// Whether this is a thing with a name, not a piece of the manual.
    pub fn is_named(self) -> bool {
        !matches!(self, NameKind::Page | NameKind::Section)
    }
}

/// A name and where it is described.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub kind: NameKind,
    pub name: String,
    pub path: String,
    pub id: String,
    pub doc: String,
}

impl Name {
    /// The name `name` at the anchor `id` of the page `path`, or the page itself if that is empty.
    pub fn new(kind: NameKind, name: &str, path: &str, id: &str, doc: &str) -> Self {
        let plain = |text: &str| text.replace('`', "");
        Name { kind, name: plain(name), path: path.into(), id: id.into(), doc: plain(doc) }
    }

    /// Where it is described.
    pub fn href(&self) -> String {
        format!("{}#{}", self.path, self.id)
    }

    /// The key for the alphabet: letters first, without marks before them.
    pub fn key(&self) -> String {
        self.name.trim_start_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase()
    }
}
