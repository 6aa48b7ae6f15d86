//! Lists: selected, page by page. All pages of a list are of one moment, and can be had for five minutes.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::TimeDelta;
use serde_json::{Value, json};

use super::{State, answer::Answer, request::Call, resource::Kind, selector::Selectors};
use crate::api::time::{Time, later};

/// How long the later pages of a list can be had.
const LIFETIME: TimeDelta = TimeDelta::minutes(5);

/// Lists of which not all pages were read.
#[derive(Debug, Clone, Default)]
pub(super) struct Pages {
    begun: BTreeMap<u64, Begun>,
    last: u64,
}

#[derive(Debug, Clone)]
struct Begun {
    at: Time,
    version: String,
    items: Arc<Vec<Value>>,
}

impl State {
    /// A list, or the next page of one.
    pub fn list(&mut self, call: &Call) -> Result<Answer, Answer> {
        let now = self.now();
        let limit = match call.parameter("limit").map(str::parse::<usize>) {
            None => 0,
            Some(Ok(limit)) => limit,
            Some(Err(error)) => return Err(Answer::bad_request(format!("unable to read limit: {error}"))),
        };
        let selectors =
            Selectors::read(call.kind, call.parameter("labelSelector").unwrap_or(""), call.parameter("fieldSelector").unwrap_or(""))?;
        self.pages.begun.retain(|_, begun| now < later(begun.at, LIFETIME));
        let (begun, from) = match call.parameter("continue") {
            None => {
                let mut items = self.all(call.kind, &call.namespace, selectors.node.as_deref());
                items.retain(|item| selectors.select(item));
                (Begun { at: now, version: self.list_version(), items: Arc::new(items) }, 0)
            }
            Some(token) => {
                let (id, from, last) = read_token(token).ok_or_else(|| Answer::bad_request("continue key is not valid"))?;
                match self.pages.begun.get(&id) {
                    Some(begun) => (begun.clone(), from),
                    None => return Err(Answer::expired(self.begin_again(call, &selectors, &last))),
                }
            }
        };
        Ok(Answer::ok(self.page(call, &selectors, &begun, from, limit)))
    }

    fn page(&mut self, call: &Call, selectors: &Selectors, begun: &Begun, from: usize, limit: usize) -> Value {
        let from = from.min(begun.items.len());
        let to = if limit == 0 { begun.items.len() } else { begun.items.len().min(from + limit) };
        let mut metadata = json!({"resourceVersion": begun.version});
        if call.kind.custom {
            metadata["continue"] = json!("");
        }
        if to < begun.items.len() {
            metadata["continue"] = json!(self.pages.keep(begun, to));
            if selectors.is_empty() {
                metadata["remainingItemCount"] = json!(begun.items.len() - to);
            }
        }
        let shown = |item: &Value| if call.is_partial { partial(item) } else { whole(call.kind, item) };
        let items: Vec<Value> = begun.items[from..to].iter().map(shown).collect();
        let (api_version, kind) = if call.is_partial {
            ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList".to_owned())
        } else {
            (call.kind.api_version(), format!("{}List", call.kind.kind))
        };
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "items": items})
    }

    /// A token that goes on with what is there now, behind the last item that was read.
    fn begin_again(&mut self, call: &Call, selectors: &Selectors, last: &str) -> String {
        let mut items = self.all(call.kind, &call.namespace, selectors.node.as_deref());
        items.retain(|item| selectors.select(item));
        let from = items.iter().take_while(|item| *place(item) <= *last).count();
        let begun = Begun { at: self.now(), version: self.list_version(), items: Arc::new(items) };
        self.pages.keep(&begun, from)
    }

    /// Grows with time and writes; nobody compares it with an object's.
    fn list_version(&self) -> String {
        format!("{}{:06}", self.now().timestamp(), self.version)
    }
}

impl Pages {
    /// Keeps what is left of a list; the token that it is asked for by.
    fn keep(&mut self, begun: &Begun, from: usize) -> String {
        self.last += 1;
        self.begun.insert(self.last, begun.clone());
        let last = from.checked_sub(1).and_then(|last| begun.items.get(last)).map(place).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(format!("{}/{from}/{last}", self.last))
    }
}

/// Where an item stands in its list.
fn place(item: &Value) -> String {
    let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

fn read_token(token: &str) -> Option<(u64, usize, String)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let mut parts = text.splitn(3, '/');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.to_owned()))
}

/// An object's metadata alone.
pub(super) fn partial(object: &Value) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
}

/// An item of a list: those of the API server's own kinds don't say what they are.
fn whole(kind: &Kind, object: &Value) -> Value {
    let mut item = object.clone();
    if let Some(fields) = item.as_object_mut().filter(|_| !kind.custom) {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    item
}
