//! Colours of code: the tokens of a block as elements with a class for each kind. Pages of ops and, through
//! [`highlight`], guides in Markdown use it, when the manual is made: pages need no script for it.
//!
//! A lexer with a table for each language is enough: it knows comments, strings, numbers, keywords and names, and no
//! grammar. The text of a block is never changed, whatever it holds, which is what the button that copies it relies on.

use super::html::escape;

/// The kind of a token. The style sheet has a colour for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Plain,
    Comment,
    Text,
    Number,
    Keyword,
    Name,
    Type,
    /// Output of a command.
    Output,
}

impl Token {
    fn class(self) -> Option<&'static str> {
        match self {
            Token::Plain => None,
            Token::Comment => Some("t-comment"),
            Token::Text => Some("t-text"),
            Token::Number => Some("t-number"),
            Token::Keyword => Some("t-keyword"),
            Token::Name => Some("t-name"),
            Token::Type => Some("t-type"),
            Token::Output => Some("t-output"),
        }
    }
}

/// The tokens of a language.
struct Language {
    names: &'static [&'static str],
    line_comment: &'static str,
    block_comment: Option<(&'static str, &'static str)>,
    /// Marks around strings.
    quotes: &'static [char],
    /// Whether a string may have several lines.
    long_strings: bool,
    keywords: &'static [&'static str],
    types: &'static [&'static str],
    /// Whether a word with a capital is a type.
    capital_types: bool,
    /// Marks before the names of values, functions and labels.
    name_marks: &'static [char],
    /// Marks before types and attributes.
    type_marks: &'static [char],
    /// Marks inside words.
    word_marks: &'static [char],
    grammar: Grammar,
}

/// The rules that a table cannot say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grammar {
    None,
    /// `'a` is a lifetime, `'a'` a character, and a name before `!` is a macro.
    Rust,
    /// A word with dots is the name of an operation.
    Mlir,
    /// A word before a colon is a key, and quotes inside of words are none.
    Yaml,
    /// The first word of a command is its name, words with dashes are flags.
    Shell,
}

const PLAIN: Language = Language {
    names: &[],
    line_comment: "#",
    block_comment: None,
    quotes: &['"', '\''],
    long_strings: false,
    keywords: &[],
    types: &[],
    capital_types: false,
    name_marks: &[],
    type_marks: &[],
    word_marks: &['_'],
    grammar: Grammar::None,
};

const LANGUAGES: [Language; 6] = [
    Language {
        names: &["rust"],
        line_comment: "//",
        block_comment: Some(("/*", "*/")),
        quotes: &['"'],
        long_strings: true,
        keywords: &[
            "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern", "false",
            "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return",
            "self", "static", "struct", "super", "trait", "true", "type", "unsafe", "use", "where", "while",
        ],
        types: &[
            "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "isize", "str", "u8", "u16", "u32", "u64", "usize",
        ],
        capital_types: true,
        grammar: Grammar::Rust,
        ..PLAIN
    },
    Language {
        names: &["c"],
        line_comment: "//",
        block_comment: Some(("/*", "*/")),
        keywords: &[
            "break", "case", "const", "continue", "default", "do", "else", "enum", "extern", "for", "if", "return",
            "sizeof", "static", "struct", "switch", "typedef", "union", "while",
        ],
        types: &[
            "bool",
            "char",
            "double",
            "float",
            "int",
            "int32_t",
            "int64_t",
            "long",
            "size_t",
            "uint32_t",
            "uint64_t",
            "uint8_t",
            "uintptr_t",
            "unsigned",
            "void",
        ],
        capital_types: true,
        ..PLAIN
    },
    Language {
        names: &["python"],
        long_strings: true,
        keywords: &[
            "False", "None", "True", "and", "as", "assert", "break", "class", "continue", "def", "del", "elif", "else",
            "except", "finally", "for", "from", "if", "import", "in", "is", "lambda", "not", "or", "pass", "raise",
            "return", "try", "while", "with", "yield",
        ],
        capital_types: true,
        ..PLAIN
    },
    Language {
        names: &["yaml"],
        keywords: &["true", "false", "null"],
        word_marks: &['_', '-', '.'],
        grammar: Grammar::Yaml,
        ..PLAIN
    },
    Language {
        names: &["mlir", "vmasm"],
        line_comment: "//",
        quotes: &['"'],
        keywords: &["dense", "func", "module", "private", "public", "return"],
        types: &["bf16", "f16", "f32", "f64", "i1", "i8", "i16", "i32", "i64", "index", "memref", "tensor", "vector"],
        name_marks: &['%', '^', '@'],
        type_marks: &['!', '#'],
        word_marks: &['_', '.', '$'],
        grammar: Grammar::Mlir,
        ..PLAIN
    },
    Language { names: &["sh", "bash"], name_marks: &['$'], grammar: Grammar::Shell, ..PLAIN },
];

/// `text` as HTML with a colour for each token; in one colour if the language is not known.
pub fn highlight(language: &str, text: &str) -> String {
    let mut out = String::with_capacity(2 * text.len());
    if language == "console" {
        console(text, &mut out);
        return out;
    }
    match LANGUAGES.iter().find(|known| known.names.contains(&language)) {
        Some(known) => write(known, text, &mut out),
        None => out = escape(text),
    }
    out
}

/// A session in a shell: commands after a prompt, which go on after a backslash, and their output.
fn console(text: &str, out: &mut String) {
    let shell = &LANGUAGES[LANGUAGES.len() - 1];
    let mut goes_on = false;
    for line in text.split_inclusive('\n') {
        let command = line.strip_prefix("$ ").or(goes_on.then_some(line));
        goes_on = command.is_some_and(|command| command.trim_end().ends_with('\\'));
        match command {
            Some(command) => {
                push(Token::Output, &line[..line.len() - command.len()], out);
                write(shell, command, out);
            }
            None => push(Token::Output, line, out),
        }
    }
}

fn push(token: Token, text: &str, out: &mut String) {
    match token.class() {
        Some(class) if !text.trim().is_empty() => {
            // A line's end is no part of its last token.
            let (content, end) = text.split_at(text.trim_end_matches('\n').len());
            out.push_str(&format!("<span class=\"{class}\">{}</span>{end}", escape(content)));
        }
        _ => out.push_str(&escape(text)),
    }
}

fn write(language: &Language, text: &str, out: &mut String) {
    // For a shell: whether the next word is the name of a command.
    let (mut at, mut is_command) = (0, true);
    while at < text.len() {
        let before = text[..at].chars().next_back().unwrap_or('\n');
        let (token, length) = next(language, &text[at..], before, is_command);
        let found = &text[at..at + length];
        if language.grammar == Grammar::Shell {
            is_command = match found {
                found if found.trim().is_empty() => is_command || found.contains('\n'),
                "|" | "&" | ";" | "(" => true,
                // A variable that is set for a command, and its value.
                found => is_command && (found.ends_with('=') || before == '='),
            };
            // A backslash before the end of a line goes on with the arguments.
            is_command &= !(found.contains('\n') && text[..at].ends_with('\\'));
        }
        push(token, found, out);
        at += length;
    }
}

/// The token that `rest` begins with, and its length, which is not zero.
fn next(language: &Language, rest: &str, before: char, is_command: bool) -> (Token, usize) {
    let first = rest.chars().next().unwrap_or(' ');
    let is_word = |letter: char| letter.is_alphanumeric() || language.word_marks.contains(&letter);
    let length_of = |text: &str, part: &dyn Fn(char) -> bool| text.find(|letter| !part(letter)).unwrap_or(text.len());
    let shell = language.grammar == Grammar::Shell;
    if first.is_whitespace() {
        return (Token::Plain, length_of(rest, &char::is_whitespace));
    }
    // In scripts and data, a `#` inside of a word begins no comment.
    let may_begin = language.line_comment != "#" || before.is_whitespace();
    if rest.starts_with(language.line_comment) && may_begin {
        return (Token::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if let Some((open, close)) = language.block_comment
        && let Some(inside) = rest.strip_prefix(open)
    {
        return (Token::Comment, inside.find(close).map_or(rest.len(), |end| open.len() + end + close.len()));
    }
    if language.grammar == Grammar::Rust && first == '\'' {
        return character_or_lifetime(rest);
    }
    if language.quotes.contains(&first) && (language.grammar != Grammar::Yaml || !is_word(before)) {
        return (Token::Text, string_length(language, rest, first));
    }
    if shell {
        return shell_word(rest, before, is_command);
    }
    let marked = |length: usize| first.len_utf8() + length;
    if language.name_marks.contains(&first) {
        return (Token::Name, marked(length_of(&rest[first.len_utf8()..], &is_word)));
    }
    if language.type_marks.contains(&first) {
        return (Token::Type, marked(length_of(&rest[first.len_utf8()..], &is_word)));
    }
    if first.is_ascii_digit() {
        let is_fraction =
            |at: usize| rest[at..].starts_with('.') && rest[at + 1..].starts_with(|c: char| c.is_ascii_digit());
        let mut length = length_of(rest, &|letter| letter.is_alphanumeric() || letter == '_');
        if is_fraction(length) {
            length += 1 + length_of(&rest[length + 1..], &|letter| letter.is_alphanumeric() || letter == '_');
        }
        return (Token::Number, length);
    }
    if is_word(first) {
        let length = length_of(rest, &is_word);
        return (word(language, &rest[..length], &rest[length..]), length);
    }
    (Token::Plain, first.len_utf8())
}

/// The kind of a word, from the text after it, too.
fn word(language: &Language, word: &str, after: &str) -> Token {
    let grammar = language.grammar;
    if grammar == Grammar::Yaml && after.starts_with(':') && after[1..].chars().next().is_none_or(char::is_whitespace) {
        Token::Name
    } else if language.keywords.contains(&word) || (grammar == Grammar::Mlir && word.trim_matches('.').contains('.')) {
        Token::Keyword
    } else if grammar == Grammar::Rust && after.starts_with('!') && !after.starts_with("!=") {
        Token::Name
    } else if language.types.contains(&word)
        || (language.capital_types && word.starts_with(char::is_uppercase) && word.contains(char::is_lowercase))
    {
        Token::Type
    } else {
        Token::Plain
    }
}

/// The length of the string that `rest` begins with.
fn string_length(language: &Language, rest: &str, quote: char) -> usize {
    let triple = quote.to_string().repeat(3);
    if language.long_strings && rest.starts_with(&triple) {
        return rest[3..].find(&triple).map_or(rest.len(), |end| 3 + end + 3);
    }
    // A shell knows no escapes between single quotes.
    let escapes = language.grammar != Grammar::Shell || quote == '"';
    let mut is_escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if escapes => is_escaped = true,
            '\n' if !language.long_strings && language.grammar != Grammar::Shell => return at,
            letter if letter == quote => return at + letter.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// `'a'`, `'\n'` or `'a`.
fn character_or_lifetime(rest: &str) -> (Token, usize) {
    let mut letters = rest.char_indices().skip(1);
    let second = letters.next();
    if matches!(second, Some((_, '\\'))) {
        letters.next();
        let end = letters.find(|(_, letter)| *letter == '\'');
        return (Token::Text, end.map_or(rest.len(), |(at, _)| at + 1));
    }
    if let Some((at, '\'')) = letters.next() {
        return (Token::Text, at + 1);
    }
    let name = rest[1..].find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(rest.len() - 1);
    (Token::Name, 1 + name)
}

/// A part of a command: its name, a flag up to its value, a variable, or a word.
fn shell_word(rest: &str, before: char, is_command: bool) -> (Token, usize) {
    let first = rest.chars().next().unwrap_or(' ');
    if first == '$' {
        let length = match rest.as_bytes().get(1) {
            Some(b'{') => rest.find('}').map_or(rest.len(), |end| end + 1),
            _ => rest[1..]
                .find(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
                .map_or(rest.len(), |end| end + 1),
        };
        return (Token::Name, length);
    }
    const ENDS: &[char] = &['"', '\'', ';', '|', '&', '<', '>', '(', ')', '$', '='];
    let length = rest.find(|letter: char| letter.is_whitespace() || ENDS.contains(&letter)).unwrap_or(rest.len());
    if length == 0 {
        return (Token::Plain, first.len_utf8());
    }
    let is_set = rest[length..].starts_with('=');
    match first {
        '-' if before.is_whitespace() => (Token::Name, length),
        _ if is_command && is_set => (Token::Name, length + 1),
        _ if is_command && before != '=' => (Token::Keyword, length),
        _ if rest[..length].chars().all(|letter| letter.is_ascii_digit()) => (Token::Number, length),
        _ => (Token::Plain, length),
    }
}
