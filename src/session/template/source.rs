//! The source of a template before it is compiled: what minijinja does not know is put in words that it knows, and
//! what may be assigned is bounded. The tags are read as minijinja reads them, so that nothing passes for another thing.

use minijinja::{Error, ErrorKind};

use super::{KEPT, Outcome};

/// The longest template, in bytes. Known ones have 20,000 at most.
const LONGEST_SOURCE: usize = 64 << 10;

pub(super) fn prepare(source: &str) -> Outcome<String> {
    if source.len() > LONGEST_SOURCE {
        return Err(Error::new(ErrorKind::SyntaxError, "it is longer than 64 KiB"));
    }
    let mut out = String::with_capacity(source.len() + 256);
    let mut rest = source;
    let opens = |pair: &[u8]| matches!(pair, b"{{" | b"{%" | b"{#");
    while let Some(at) = rest.as_bytes().windows(2).position(opens) {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let end = end_of(tag).ok_or_else(|| Error::new(ErrorKind::SyntaxError, "a tag does not end"))?;
        let (tag, after) = tag.split_at(end);
        let inner = tag.strip_prefix("{%").and_then(|tag| tag.strip_suffix("%}"));
        match inner.and_then(|inner| without_generation(inner).or_else(|| bounded(inner))) {
            Some(inner) => out.extend(["{%", &inner, "%}"]),
            None => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Where the comment, the raw block or the tag ends that `text` begins with.
fn end_of(text: &str) -> Option<usize> {
    let body = text.get(2..)?;
    let close = match text.as_bytes().get(1)? {
        b'#' => return Some(2 + body.find("#}")? + 2),
        b'%' if word(body).0 == "raw" && is_end(word(body).1) => return end_of_raw(text),
        b'%' => b"%}",
        _ => b"}}",
    };
    let (mut depth, mut at) = (0_usize, 2);
    let bytes = text.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        if depth == 0 && bytes[at..].starts_with(close) {
            return Some(at + 2);
        }
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b'"' | b'\'' => at += end_of_string(&bytes[at + 1..], byte)?,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The bytes up to and with the closing quote.
fn end_of_string(bytes: &[u8], quote: u8) -> Option<usize> {
    let mut escaped = false;
    let inside = |&byte: &u8| {
        let ends = byte == quote && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    };
    bytes.iter().position(inside).map(|at| at + 1)
}

fn end_of_raw(text: &str) -> Option<usize> {
    let mut opens = text.match_indices("{%").map(|(at, _)| at).skip(1);
    let end = |at| {
        let (name, after) = word(text.get(at + 2..)?);
        (name == "endraw" && is_end(after)).then(|| Some(text.len() - after.len() + after.find("%}")? + 2))?
    };
    opens.find_map(end)
}

/// The first word of a tag and what follows it.
fn word(tag: &str) -> (&str, &str) {
    let tag = tag.strip_prefix(['-', '+']).unwrap_or(tag).trim_ascii_start();
    tag.split_at(tag.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(tag.len()))
}

/// Does nothing more come before the tag's end?
fn is_end(after: &str) -> bool {
    let after = after.trim_ascii_start();
    after.strip_prefix(['-', '+']).unwrap_or(after).starts_with("%}")
}

/// `{% generation %}` marks what the model is trained on; here it means only its contents. Jinja2 gives them a
/// scope of their own, and so does `{% with %}`.
fn without_generation(inner: &str) -> Option<String> {
    let (name, after) = word(inner);
    let plain = match name {
        "generation" => "with",
        "endgeneration" => "endwith",
        _ => return None,
    };
    let alone = matches!(after.trim_ascii(), "" | "-" | "+");
    alone.then(|| format!("{}{plain}{after}", &inner[..inner.len() - after.len() - name.len()]))
}

/// Only what is assigned can grow without end, so each assignment passes through a filter.
fn bounded(inner: &str) -> Option<String> {
    let (name, after) = word(inner);
    let at = after.find(['=', '|', '"', '\''])?;
    if name != "set" || !after[at..].starts_with('=') {
        return None;
    }
    let head = &inner[..inner.len() - after.len() + at];
    let value = &after[at + 1..];
    let tail = if value.ends_with(['-', '+']) { &value[value.len() - 1..] } else { "" };
    let value = &value[..value.len() - tail.len()];
    // A namespace that holds another one can hold itself.
    let into_namespace = head.contains('.');
    Some(format!("{head}=({value})|{KEPT}({into_namespace}){tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_and_generation_are_rewritten_and_nothing_else() {
        for (source, out) in [
            ("{% set x = 1 %}", "{% set x =( 1 )|kept(false)%}"),
            ("{%-set a.b=c -%} ", "{%-set a.b=(c )|kept(true)-%} "),
            (
                "{% set x = '%}' ~ {'a': {'b': \"\\\"%}\"}} %}",
                "{% set x =( '%}' ~ {'a': {'b': \"\\\"%}\"}} )|kept(false)%}",
            ),
            ("{% set a, b = 1, 2 +%}", "{% set a, b =( 1, 2 )|kept(false)+%}"),
            ("{% set x | indent(width=1) %}", "{% set x | indent(width=1) %}"),
            ("{% set x %}", "{% set x %}"),
            ("{% settle = 1 %}{% if x == 1 %}", "{% settle = 1 %}{% if x == 1 %}"),
            ("{# {% set x = #}{% set y = 1 %}", "{# {% set x = #}{% set y =( 1 )|kept(false)%}"),
            ("{{ '{% set x = 1 %}' }}", "{{ '{% set x = 1 %}' }}"),
            ("{% raw %}{% set x = 1 %}{%- endraw -%}a", "{% raw %}{% set x = 1 %}{%- endraw -%}a"),
            (
                "{% raw -%}{% endraw %}{% set é = 'é' %}",
                "{% raw -%}{% endraw %}{% set é =( 'é' )|kept(false)%}",
            ),
            ("{%- generation +%}a{%endgeneration%}", "{%- with +%}a{%endwith%}"),
            (
                "{% set generation = 1 %}{{ generation }}",
                "{% set generation =( 1 )|kept(false)%}{{ generation }}",
            ),
            ("a } %} {b", "a } %} {b"),
        ] {
            assert_eq!(prepare(source).unwrap(), out, "{source}");
        }
    }

    #[test]
    fn tags_without_an_end_are_refused() {
        for source in [
            "{% set x = 1",
            "{{ '}}",
            "{# ",
            "{% raw %}{% endra %}",
            "{% set a.b = a) or (a %}",
            "{{ 'a\\' }}",
        ] {
            assert!(prepare(source).is_err(), "{source}");
        }
    }
}
