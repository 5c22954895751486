//! What chat templates expect of Python: methods of its strings, `json.dumps` and `strftime`.

use std::fmt::Write as _;

use jiff::civil::DateTime;
use minijinja::value::{DynObject, Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::{LONGEST, Outcome};

/// The deepest value that `tojson` writes and that a variable keeps.
const DEEPEST: usize = 100;

/// The widest field of `format()`.
const WIDEST: usize = 999;

/// Python's methods, with the fuel that they forget: for reading a long text, and for making one.
pub(super) fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Outcome<Value> {
    let Some(text) = value.as_str() else { return unknown_method_callback(state, value, name, args) };
    state.consume_fuel(text.len() as u64 / 64)?;
    if name == "format" {
        let longest: usize = args.iter().map(|arg| arg.to_string().len()).sum();
        state.consume_fuel((fields(text)? * (longest + WIDEST)) as u64 / 64)?;
    }
    if let ("join", [list]) = (name, args) {
        let list = joinable(state, list)?;
        return unknown_method_callback(state, value, name, &[list]);
    }
    unknown_method_callback(state, value, name, args)
}

/// The items of a list that is to be joined, if that makes a text of reasonable length.
pub(super) fn joinable(state: &State, list: &Value) -> Outcome<Value> {
    if list.as_object().is_none() {
        return Ok(list.clone());
    }
    let (mut items, mut bytes) = (Vec::new(), 0);
    for item in list.try_iter()? {
        state.consume_fuel(1)?;
        bytes += item.as_str().map_or(0, str::len);
        if bytes > LONGEST {
            return Err(Error::from(ErrorKind::OutOfFuel));
        }
        items.push(item);
    }
    Ok(items.into())
}

/// A value that a variable may keep: it has few levels, a reasonable size when it is written out, and no namespace
/// inside, which could lead back to itself.
pub(super) fn kept(state: &State, value: Value, into_namespace: bool) -> Outcome<Value> {
    match value.as_object() {
        Some(object) if !into_namespace && is_namespace(object) => weigh_items(state, &value, 0, &mut 0)?,
        _ => weigh(state, &value, 0, &mut 0)?,
    }
    Ok(value)
}

fn weigh(state: &State, value: &Value, depth: usize, bytes: &mut usize) -> Outcome<()> {
    let refuse = |what: &str| Err(Error::new(ErrorKind::InvalidOperation, what.to_owned()));
    *bytes += value.as_str().map_or(1, str::len);
    if *bytes > LONGEST {
        return refuse("a variable is larger than 32 MiB");
    }
    match value.as_object() {
        Some(object) if is_namespace(object) => refuse("a namespace inside a variable"),
        Some(_) if depth == DEEPEST => refuse("a variable has too many levels"),
        Some(_) => weigh_items(state, value, depth + 1, bytes),
        None => Ok(()),
    }
}

fn weigh_items(state: &State, value: &Value, depth: usize, bytes: &mut usize) -> Outcome<()> {
    let is_map = value.kind() == ValueKind::Map;
    if !is_map && !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Ok(());
    }
    for item in value.try_iter()? {
        state.consume_fuel(1)?;
        weigh(state, &item, depth, bytes)?;
        if is_map {
            weigh(state, &value.get_item(&item)?, depth, bytes)?;
        }
    }
    Ok(())
}

/// The type is private to minijinja.
fn is_namespace(object: &DynObject) -> bool {
    object.type_name().ends_with("::Namespace")
}

/// The number of fields in a format string, none of them wider than [`WIDEST`].
fn fields(format: &str) -> Outcome<usize> {
    let mut fields = 0;
    for field in format.split('{').skip(1) {
        let (field, closed) = field.split_once('}').map_or((field, false), |(field, _)| (field, true));
        let wide = field.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 3);
        if wide || (!closed && field.contains(':')) {
            return Err(Error::new(ErrorKind::InvalidOperation, "too wide a field in format()"));
        }
        fields += 1;
    }
    Ok(fields)
}

pub(super) fn strftime(now: DateTime, format: &str) -> Outcome<String> {
    jiff::fmt::strtime::format(format, now)
        .map_err(|err| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {err}")))
}

/// Python's `json.dumps`: spaces after separators, keys in their order, nothing escaped for HTML.
pub(super) fn tojson(value: &Value, options: &Kwargs) -> Outcome<String> {
    let indent = match options.get::<Option<Value>>("indent")? {
        None => None,
        Some(indent) if indent.is_none() => None,
        Some(indent) => Some(match indent.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(usize::try_from(indent)?.min(64)),
        }),
    };
    let default = (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned());
    let (item, key) = match options.get::<Option<Value>>("separators")? {
        Some(pair) if !pair.is_none() => (pair.get_item_by_index(0)?, pair.get_item_by_index(1)?),
        _ => (default.0.into(), default.1.into()),
    };
    let mut json = Json {
        out: String::new(),
        ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sorted: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        indent,
        separators: (item.to_string(), key.to_string()),
        depth: 0,
    };
    options.assert_all_used()?;
    json.value(value)?;
    Ok(json.out)
}

struct Json {
    out: String,
    ascii: bool,
    sorted: bool,
    indent: Option<String>,
    separators: (String, String),
    depth: usize,
}

impl Json {
    fn value(&mut self, value: &Value) -> Outcome<()> {
        if self.out.len() > LONGEST {
            return Err(Error::from(ErrorKind::OutOfFuel));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&value.to_string()),
            ValueKind::String => self.string(&value.to_string()),
            ValueKind::Seq | ValueKind::Iterable => {
                self.group('[', ']', value.try_iter()?, |json, item| json.value(&item))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<_> = value.try_iter()?.collect();
                if self.sorted {
                    keys.sort();
                }
                self.group('{', '}', keys.into_iter(), |json, key| {
                    let value = value.get_item(&key)?;
                    let name = match key.kind() {
                        ValueKind::None => "null".into(),
                        ValueKind::Bool => key.to_string().to_lowercase(),
                        _ => key.to_string(),
                    };
                    json.string(&name);
                    json.out.push_str(&json.separators.1);
                    json.value(&value)
                })?;
            }
            kind => {
                let message = format!("{kind} has no form in JSON");
                return Err(Error::new(ErrorKind::BadSerialization, message));
            }
        }
        Ok(())
    }

    fn group(
        &mut self,
        open: char,
        close: char,
        items: impl Iterator<Item = Value>,
        write: impl Fn(&mut Self, Value) -> Outcome<()>,
    ) -> Outcome<()> {
        if self.depth == DEEPEST {
            return Err(Error::new(ErrorKind::BadSerialization, "too many levels for JSON"));
        }
        self.out.push(open);
        self.depth += 1;
        let mut empty = true;
        for item in items {
            if !std::mem::take(&mut empty) {
                self.out.push_str(&self.separators.0);
            }
            self.new_line();
            write(self, item)?;
        }
        self.depth -= 1;
        if !empty {
            self.new_line();
        }
        self.out.push(close);
        Ok(())
    }

    fn new_line(&mut self) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(indent.as_str(), self.depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\x08' => self.out.push_str("\\b"),
                '\x0c' => self.out.push_str("\\f"),
                c if c < ' ' || (self.ascii && c > '~') => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}
