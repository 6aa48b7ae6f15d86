//! YAML with the place of every value. What a scalar means is what `kubectl` and the API server make of it ([`scalar`]),
//! not what the newest YAML says.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};
use serde_json::{Map, Value};

mod scalar;

/// Deeper than any object of Kubernetes; what is deeper is refused before it can exhaust the stack.
const DEPTH: usize = 64;
/// Values of one file, aliases written out; more is refused as a file that grows on reading.
const VALUES: usize = 1_000_000;

/// A place in a file, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its first character.
    pub at: Place,
    /// What it is.
    pub content: Content,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Text, number, boolean or null.
    Scalar(Value),
    /// A list.
    List(Vec<Node>),
    /// An object: keys with their places, and values.
    Object(Vec<(String, Place, Node)>),
}

/// Why a file can't be read as YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Fault {
    /// Where.
    pub at: Place,
    /// Why.
    pub why: String,
}

/// The documents up to the first fault, and that fault. Empty documents are left out.
pub fn documents(text: &str) -> (Vec<Node>, Option<Fault>) {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let taken = match event {
            Ok((event, span)) => builder.take(event, span),
            Err(error) => Err(Fault { at: place(error.marker()), why: error.info().to_owned() }),
        };
        if let Err(fault) = taken {
            return (builder.documents, Some(fault));
        }
    }
    (builder.documents, None)
}

fn place(marker: &saphyr_parser::Marker) -> Place {
    Place { line: marker.line(), column: marker.col() + 1 }
}

/// A list or object that is being read.
enum Open {
    List(Vec<Node>),
    Object(Vec<(String, Place, Node)>, Option<(Key, Place)>, Merges),
}

/// What `<<` named, to be taken over at the object's end: what the object says itself wins, wherever it stands.
type Merges = Vec<(Node, Place)>;

enum Key {
    Named(String),
    /// `<<`: takes over the fields of another object that are not given here.
    Merge,
}

#[derive(Default)]
struct Builder {
    documents: Vec<Node>,
    open: Vec<(Open, Place, usize)>,
    anchors: BTreeMap<usize, Node>,
    values: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        let at = place(&span.start);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => Ok(()),
            Event::Alias(anchor) => {
                let target = self.anchors.get(&anchor).cloned();
                let target = target.ok_or_else(|| Fault { at, why: "an alias of something that is not there yet".into() })?;
                self.done(Node { at, content: target.content }, 0)
            }
            Event::Scalar(text, style, anchor, tag) => self.scalar(&text, style, tag.as_deref(), at, anchor),
            Event::SequenceStart(anchor, _) => self.opened(Open::List(Vec::new()), at, anchor),
            Event::MappingStart(anchor, _) => self.opened(Open::Object(Vec::new(), None, Vec::new()), at, anchor),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some((open, at, anchor)) = self.open.pop() else { return Ok(()) };
                let content = match open {
                    Open::List(items) => Content::List(items),
                    Open::Object(mut fields, _, merges) => {
                        merges.into_iter().try_for_each(|(node, at)| merge(&mut fields, node, at))?;
                        Content::Object(fields)
                    }
                };
                self.done(Node { at, content }, anchor)
            }
        }
    }

    fn opened(&mut self, open: Open, at: Place, anchor: usize) -> Result<(), Fault> {
        if let Some((Open::Object(_, None, _), ..)) = self.open.last() {
            return Err(Fault { at, why: "a key has to be text".into() });
        }
        if self.open.len() >= DEPTH {
            return Err(Fault { at, why: format!("nested more than {DEPTH} deep") });
        }
        self.open.push((open, at, anchor));
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, at: Place, anchor: usize) -> Result<(), Fault> {
        let plain = style == ScalarStyle::Plain && tag.is_none_or(|tag| !(tag.is_yaml_core_schema() && tag.suffix == "str"));
        if let Some((Open::Object(fields, key @ None, _), ..)) = self.open.last_mut() {
            if plain && text == "<<" {
                *key = Some((Key::Merge, at));
                return Ok(());
            }
            let name = if plain { scalar::key(text) } else { Some(text.to_owned()) };
            let name = name.ok_or_else(|| Fault { at, why: "a key has to be text".into() })?;
            if fields.iter().any(|(known, ..)| *known == name) {
                return Err(Fault { at, why: format!("the key {name:?} is there already: give it once") });
            }
            *key = Some((Key::Named(name), at));
            return Ok(());
        }
        let value = if plain { scalar::value(text) } else { Some(Value::from(text)) };
        let value = value.ok_or_else(|| Fault { at, why: format!("{text} is no number that Kubernetes can hold") })?;
        self.done(Node { at, content: Content::Scalar(value) }, anchor)
    }

    /// Puts a whole value where it belongs.
    fn done(&mut self, node: Node, anchor: usize) -> Result<(), Fault> {
        let at = node.at;
        self.values += 1 + if self.anchors.is_empty() { 0 } else { node.size() };
        if self.values > VALUES {
            return Err(Fault { at, why: "too many values".into() });
        }
        if self.open.len() + node.depth() > DEPTH {
            return Err(Fault { at, why: format!("nested more than {DEPTH} deep") });
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None if node.content == Content::Scalar(Value::Null) => {}
            None => self.documents.push(node),
            Some((Open::List(items), ..)) => items.push(node),
            Some((Open::Object(fields, key, merges), ..)) => match key.take() {
                Some((Key::Named(name), at)) => fields.push((name, at, node)),
                Some((Key::Merge, at)) => merges.push((node, at)),
                None => return Err(Fault { at, why: "a key has to be text".into() }),
            },
        }
        Ok(())
    }
}

/// Fields of an alias that the object doesn't have itself.
fn merge(fields: &mut Vec<(String, Place, Node)>, node: Node, at: Place) -> Result<(), Fault> {
    let sources = match node.content {
        Content::Object(_) => vec![node],
        Content::List(items) => items,
        Content::Scalar(_) => return Err(Fault { at, why: "<< takes an object".into() }),
    };
    for source in sources {
        let Content::Object(more) = source.content else { return Err(Fault { at, why: "<< takes an object".into() }) };
        for (name, at, value) in more {
            if !fields.iter().any(|(known, ..)| *known == name) {
                fields.push((name, at, value));
            }
        }
    }
    Ok(())
}

impl Node {
    /// As JSON.
    pub fn json(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => Value::Array(items.iter().map(Self::json).collect()),
            Content::Object(fields) => {
                Value::Object(fields.iter().map(|(name, _, value)| (name.clone(), value.json())).collect::<Map<_, _>>())
            }
        }
    }

    /// A field of an object.
    pub fn field(&self, name: &str) -> Option<&Self> {
        match &self.content {
            Content::Object(fields) => fields.iter().find(|(known, ..)| known == name).map(|(.., value)| value),
            Content::Scalar(_) | Content::List(_) => None,
        }
    }

    /// The text of a field.
    pub fn text(&self, name: &str) -> Option<&str> {
        match &self.field(name)?.content {
            Content::Scalar(value) => value.as_str(),
            Content::List(_) | Content::Object(_) => None,
        }
    }

    /// Where a path such as `spec.maintenanceWindows[0].start` leads: the value; where a field is missing, the key of the
    /// object that lacks it. An unknown field's own key.
    pub fn locate(&self, path: &str) -> Place {
        self.locate_from(path, self.at)
    }

    fn locate_from(&self, path: &str, nearest: Place) -> Place {
        if path.is_empty() {
            return self.at;
        }
        match &self.content {
            Content::Scalar(_) => self.at,
            Content::List(items) => {
                let index = path.strip_prefix('[').and_then(|rest| rest.split_once(']'));
                let found = index.and_then(|(index, rest)| Some((items.get(index.parse::<usize>().ok()?)?, rest)));
                found.map_or(nearest, |(item, rest)| item.locate_from(rest, item.at))
            }
            Content::Object(fields) => {
                let path = path.strip_prefix('.').unwrap_or(path);
                // Keys may hold dots themselves (labels): the longest that fits is meant.
                let fits = |name: &str| {
                    path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('['))
                };
                let found = fields.iter().filter(|(name, ..)| fits(name)).max_by_key(|(name, ..)| name.len());
                found.map_or(nearest, |(name, at, value)| match path.get(name.len()..) {
                    None | Some("") if matches!(value.content, Content::Scalar(_)) => value.at,
                    None | Some("") => *at,
                    Some(rest) => value.locate_from(rest, *at),
                })
            }
        }
    }

    fn size(&self) -> usize {
        match &self.content {
            Content::Scalar(_) => 1,
            Content::List(items) => 1 + items.iter().map(Self::size).sum::<usize>(),
            Content::Object(fields) => 1 + fields.iter().map(|(.., value)| value.size()).sum::<usize>(),
        }
    }

    fn depth(&self) -> usize {
        match &self.content {
            Content::Scalar(_) => 0,
            Content::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            Content::Object(fields) => 1 + fields.iter().map(|(.., value)| value.depth()).max().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests;
