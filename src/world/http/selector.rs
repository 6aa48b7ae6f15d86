//! Label and field selectors.

use serde_json::Value;

use super::{answer::Answer, resource::Kind};

/// What is asked of one label or field.
#[derive(Debug, PartialEq)]
enum Term {
    Is(String, Vec<String>),
    IsNot(String, Vec<String>),
    Exists(String),
    Lacks(String),
}

/// Both selectors of a list.
#[derive(Debug)]
pub(super) struct Selectors {
    labels: Vec<Term>,
    fields: Vec<(&'static str, String, bool)>,
    /// The Node that Pods have to be on, where that is asked for.
    pub node: Option<String>,
}

impl Selectors {
    /// Reads them.
    pub fn read(kind: &Kind, labels: &str, fields: &str) -> Result<Self, Answer> {
        let mut read = Vec::new();
        let mut node = None;
        for term in fields.split(',').filter(|term| !term.is_empty()) {
            let (label, value, wanted) =
                comparison(term).ok_or_else(|| Answer::bad_request(format!("invalid selector: '{fields}'; can't understand '{term}'")))?;
            let Some(pointer) = kind.pointer(label) else { return Err(unknown(kind, label)) };
            if label == "spec.nodeName" && wanted && !value.is_empty() {
                node = Some(value.to_owned());
            }
            read.push((pointer, value.to_owned(), wanted));
        }
        let terms = split(labels).into_iter().map(|term| Term::read(term.trim()));
        let terms: Option<Vec<Term>> = terms.collect();
        let labels = terms.ok_or_else(|| Answer::bad_request(format!("unable to parse requirement: '{labels}'")))?;
        Ok(Self { labels, fields: read, node })
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is meant.
    pub fn select(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|term| term.holds(labels))
            && self.fields.iter().all(|(pointer, value, wanted)| (shown(pointer, object.pointer(pointer)) == *value) == *wanted)
    }
}

/// A field as it is compared: what is absent is empty, but for the one boolean, which is `false`.
fn shown(pointer: &str, value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) if pointer == "/spec/unschedulable" => "false".into(),
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn unknown(kind: &Kind, label: &str) -> Answer {
    Answer::bad_request(match (kind.custom, kind.group) {
        (true, _) => format!("field label not supported: {label}"),
        (false, "") if matches!(kind.kind, "Pod" | "Node" | "Event") => format!("field label not supported: {label}"),
        (false, _) => format!("\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    })
}

fn comparison(term: &str) -> Option<(&str, &str, bool)> {
    let signs = [("!=", false), ("==", true), ("=", true)];
    signs.into_iter().find_map(|(sign, wanted)| term.split_once(sign).map(|(label, value)| (label.trim(), value.trim(), wanted)))
}

/// The terms of a label selector: commas inside of brackets belong to a set.
fn split(text: &str) -> Vec<&str> {
    let (mut terms, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms.retain(|term| !term.trim().is_empty());
    terms
}

impl Term {
    fn read(term: &str) -> Option<Self> {
        if let Some((front, values)) = term.split_once('(') {
            let values = values.strip_suffix(')')?.split(',').map(|value| value.trim().to_owned()).collect();
            let (key, operator) = front.trim().split_once(char::is_whitespace)?;
            return match operator.trim() {
                "in" => Some(Self::Is(key.into(), values)),
                "notin" => Some(Self::IsNot(key.into(), values)),
                _ => None,
            };
        }
        if let Some((key, value, wanted)) = comparison(term) {
            let values = vec![value.to_owned()];
            return Some(if wanted { Self::Is(key.into(), values) } else { Self::IsNot(key.into(), values) });
        }
        let (key, exists) = term.strip_prefix('!').map_or((term, true), |key| (key, false));
        let is_key = !key.is_empty() && key.chars().all(|character| character.is_ascii_alphanumeric() || "-_./".contains(character));
        is_key.then(|| if exists { Self::Exists(key.into()) } else { Self::Lacks(key.into()) })
    }

    fn holds(&self, labels: &Value) -> bool {
        let of = |key: &str| labels.get(key).and_then(Value::as_str);
        let listed = |key: &str, values: &[String]| of(key).is_some_and(|value| values.iter().any(|known| known == value));
        match self {
            Self::Is(key, values) => listed(key, values),
            Self::IsNot(key, values) => !listed(key, values),
            Self::Exists(key) => of(key).is_some(),
            Self::Lacks(key) => of(key).is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_selectors_select_as_kubernetes_does() {
        let object = json!({"metadata": {"labels": {"a": "1", "x/y": "true"}}});
        let selects = |labels: &str| Selectors::read(Kind::served("", "v1", "pods").unwrap(), labels, "").unwrap().select(&object);
        for yes in ["", "a", "a=1", "a==1", "a!=2", "b!=1", "!b", "x/y=true,a", "a in (1,2)", "b notin (1), a in (1)"] {
            assert!(selects(yes), "{yes}");
        }
        for no in ["b", "a=2", "a!=1", "!a", "a,b", "a in (2,3)", "a notin (1)", "b in (1)"] {
            assert!(!selects(no), "{no}");
        }
        for broken in ["a in 1", "a like (1)", "a(", "a b"] {
            assert_eq!(Selectors::read(Kind::served("", "v1", "pods").unwrap(), broken, "").unwrap_err().code, 400, "{broken}");
        }
    }
}
