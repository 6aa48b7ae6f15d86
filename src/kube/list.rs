//! Lists: page by page, each item read on its own and while the rest of its page is still arriving, so that a broken one
//! harms only itself and no page is held whole.

use http::Request;
use kube::{api::ListParams, core::Request as Resource};
use serde::{Deserialize, de::IgnoredAny};

use super::{
    call::{Api, CallError, Receiver},
    preflight,
    split::Splitter,
};
use crate::{api::keys, cluster::Failure, view::Unreadable};

/// Items per page.
pub const PAGE: u32 = 500;
/// How much of what is no list is quoted.
const QUOTED: usize = 60;
/// How often a list is begun at most when its continuation expires (410).
const STARTS: u32 = 4;

/// A list to be read.
#[derive(Debug, Clone)]
pub struct List {
    /// The kind of its items.
    pub kind: &'static str,
    /// Where it is.
    pub path: String,
    /// Selects by label; empty for all.
    pub labels: String,
    /// Selects by field; empty for all.
    pub fields: String,
    /// Only `metadata` of each item.
    pub metadata_only: bool,
}

/// What was read.
#[derive(Debug, PartialEq)]
pub struct Listed<T> {
    /// The items that can be read, in the server's order.
    pub items: Vec<T>,
    /// Those that can't.
    pub unreadable: Vec<Unreadable>,
}

/// What stands around a page's items.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    /// May be `null`, and never be absent: a body without it is no list, whatever it is, and not an empty one. The items
    /// themselves have been taken out.
    #[serde(deserialize_with = "Option::deserialize")]
    items: Option<Vec<IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
}

impl List {
    /// All objects at a path.
    pub fn of(kind: &'static str, path: impl Into<String>) -> Self {
        Self { kind, path: path.into(), labels: String::new(), fields: String::new(), metadata_only: false }
    }

    /// Only those with these labels.
    pub fn labelled(mut self, selector: impl Into<String>) -> Self {
        self.labels = selector.into();
        self
    }

    /// Only those with these fields.
    pub fn where_field(mut self, selector: impl Into<String>) -> Self {
        self.fields = selector.into();
        self
    }

    /// Only their metadata.
    pub fn metadata(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// What reading it is called in messages.
    pub fn attempted(&self) -> String {
        let selector = [&self.labels, &self.fields].into_iter().find(|selector| !selector.is_empty());
        selector.map_or_else(|| format!("list {}s", self.kind), |selector| format!("list {}s ({selector})", self.kind))
    }

    fn request(&self, next: Option<&str>) -> Result<Request<Vec<u8>>, CallError> {
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = Some(self.labels.clone()).filter(|selector| !selector.is_empty());
        params.field_selector = Some(self.fields.clone()).filter(|selector| !selector.is_empty());
        params.continue_token = next.map(Into::into);
        let resource = Resource::new(self.path.as_str());
        let request = if self.metadata_only { resource.list_metadata(&params) } else { resource.list(&params) };
        request.map_err(|error| CallError::Broken(error.to_string()))
    }

    /// Reads it whole. A continuation that has expired begins the list again: no page is stitched to another list's.
    ///
    /// # Errors
    /// [`Failure`] that names the list.
    pub async fn read<T>(&self, api: &Api, parse: impl Fn(&[u8]) -> Result<T, String>) -> Result<Listed<T>, Failure> {
        let mut starts = 1;
        loop {
            match self.pages(api, &parse).await {
                Err(CallError::Status { code: 410, .. }) if starts < STARTS => starts += 1,
                answer => return answer.map_err(|error| self.failure(error)),
            }
        }
    }

    fn failure(&self, error: CallError) -> Failure {
        let whole = self.labels.is_empty() && self.fields.is_empty();
        let unserved = whole.then(|| preflight::verdict(&self.path, &error)).flatten();
        unserved.map_or_else(|| error.failure(&self.attempted()), |unserved| Failure::Preflight(unserved.to_string()))
    }

    async fn pages<T>(&self, api: &Api, parse: &impl Fn(&[u8]) -> Result<T, String>) -> Result<Listed<T>, CallError> {
        let mut listed = Listed { items: Vec::new(), unreadable: Vec::new() };
        let mut next = None;
        loop {
            let request = self.request(next.as_deref())?;
            let before = (listed.items.len(), listed.unreadable.len());
            let mut reading = Reading { list: self, parse, listed: &mut listed, before, splitter: Splitter::default(), next: None };
            api.read_into(&request, &mut reading).await?;
            next = reading.next.filter(|next| !next.is_empty());
            if next.is_none() {
                return Ok(listed);
            }
        }
    }

    fn unreadable(&self, item: &[u8], why: String) -> Unreadable {
        let value: serde_json::Value = serde_json::from_slice(item).unwrap_or_default();
        let metadata = &value["metadata"];
        let name = metadata["name"].as_str().unwrap_or("(without a name)").to_owned();
        let pool =
            if self.kind == "NodePool" { Some(name.clone()) } else { metadata["labels"][keys::NODEPOOL_LABEL].as_str().map(Into::into) };
        Unreadable { kind: self.kind, name, pool, why }
    }
}

/// A page that is being read.
struct Reading<'a, T, F> {
    list: &'a List,
    parse: &'a F,
    listed: &'a mut Listed<T>,
    /// What earlier pages have brought.
    before: (usize, usize),
    splitter: Splitter,
    /// Where the next page begins.
    next: Option<String>,
}

impl<T, F: Fn(&[u8]) -> Result<T, String>> Receiver for Reading<'_, T, F> {
    fn begin(&mut self) {
        self.splitter = Splitter::default();
        self.listed.items.truncate(self.before.0);
        self.listed.unreadable.truncate(self.before.1);
    }

    fn piece(&mut self, piece: &[u8]) -> Result<(), CallError> {
        let Self { list, parse, listed, splitter, .. } = self;
        let item = |item: &[u8]| match parse(item) {
            Ok(item) => listed.items.push(item),
            Err(why) => listed.unreadable.push(list.unreadable(item, why)),
        };
        splitter.feed(piece, item).map_err(CallError::Unreadable)
    }

    /// Part of a page is no page, even where the connection ended as if it were all.
    fn end(&mut self) -> Result<(), CallError> {
        let broken_off = || CallError::Broken("the answer breaks off".into());
        let around = std::mem::take(&mut self.splitter).end().ok_or_else(broken_off)?;
        let page: Page = serde_json::from_slice(&around).map_err(|error| {
            let begin: String = String::from_utf8_lossy(&around).chars().take(QUOTED).collect();
            match (error.is_eof(), begin.is_empty()) {
                (_, true) => CallError::Unreadable("it is empty".into()),
                (true, false) => broken_off(),
                (false, false) => CallError::Unreadable(format!("{error}; it begins {begin:?}")),
            }
        })?;
        if page.items.is_some_and(|items| !items.is_empty()) {
            return Err(CallError::Unreadable("its items are not where those of a list are".into()));
        }
        self.next = page.metadata.next;
        Ok(())
    }
}
