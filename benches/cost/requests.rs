//! What one process asked of the API server, from the audit log.

use std::{
    collections::BTreeMap,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use noderotation::api::keys::PLACEHOLDER_PREFIX;
use serde_json::Value;

const USER: &str = "system:serviceaccount:node-rotation-system:noderotation";
/// The log is complete when nothing has come for so long.
const QUIET: Duration = Duration::from_millis(300);

/// A place in the log.
pub struct Mark {
    log: PathBuf,
    offset: u64,
}

/// One request, as the server saw it.
#[derive(Debug, Clone)]
pub struct Request {
    /// Such as `list nodeclaims`; a dry run says so.
    pub what: String,
    /// When it came and went.
    pub span: (DateTime<Utc>, DateTime<Utc>),
    /// Whether it changes something.
    pub is_write: bool,
    /// The pool whose object it is about, where the name tells.
    pub pool: Option<String>,
    /// The code of the answer.
    pub code: u64,
}

impl Mark {
    /// The end of the log.
    pub fn end(log: &Path) -> Self {
        Self { log: log.into(), offset: std::fs::metadata(log).map_or(0, |file| file.len()) }
    }

    /// The requests of the program's user since, once no more come.
    pub async fn since(&self) -> Vec<Request> {
        let mut length = 0;
        loop {
            tokio::time::sleep(QUIET).await;
            let now = std::fs::metadata(&self.log).unwrap().len();
            if now == length {
                break;
            }
            length = now;
        }
        let mut file = std::fs::File::open(&self.log).unwrap();
        file.seek(SeekFrom::Start(self.offset)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["user"]["username"] == USER).map(|event| request(&event)).collect()
    }
}

fn request(event: &Value) -> Request {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let verb = text(&event["verb"]);
    let target = &event["objectRef"];
    let uri = text(&event["requestURI"]);
    let dry_run = uri.contains("dryRun=All") || event["requestObject"]["dryRun"][0] == "All";
    let resource = [text(&target["resource"]), text(&target["subresource"])];
    let resource = resource.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
    let name = text(&target["name"]);
    let pool = name
        .trim_start_matches(PLACEHOLDER_PREFIX)
        .strip_prefix("pool-")
        .and_then(|rest| rest.split('-').next())
        .map(|number| format!("pool-{number}"));
    let time = |field: &str| text(&event[field]).parse::<DateTime<Utc>>().unwrap();
    Request {
        what: format!("{verb} {resource}{}", if dry_run { " (dry run)" } else { "" }),
        span: (time("requestReceivedTimestamp"), time("stageTimestamp")),
        is_write: !dry_run && !matches!(verb.as_str(), "get" | "list" | "watch"),
        pool,
        code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
    }
}

/// How often each was asked.
pub fn counted(requests: &[Request]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry(request.what.clone()).or_default() += 1;
    }
    counts
}

/// What the writes themselves took where it took longest: the sum over one pool's, for pools are written side by side.
pub fn write_latency(requests: &[Request]) -> Duration {
    let mut pools: BTreeMap<&str, TimeDelta> = BTreeMap::new();
    for request in requests.iter().filter(|request| request.is_write) {
        *pools.entry(request.pool.as_deref().unwrap_or_default()).or_default() += request.span.1 - request.span.0;
    }
    pools.remove("");
    pools.into_values().max().unwrap_or_default().to_std().unwrap_or_default()
}

/// The log stamps an answer's end a little after the client has it.
const STAMPED_LATE: TimeDelta = TimeDelta::milliseconds(5);

/// How many writes of different pools were under way at one time, and whether any two of one pool were.
pub fn side_by_side(requests: &[Request]) -> (usize, bool) {
    let writes: Vec<&Request> = requests.iter().filter(|request| request.is_write && request.pool.is_some()).collect();
    let meets = |one: &Request, other: &Request| other.span.0 <= one.span.0 && one.span.0 < other.span.1;
    let most = writes.iter().map(|one| writes.iter().filter(|other| meets(one, other)).count()).max().unwrap_or_default();
    let of_one_pool = writes.iter().enumerate().any(|(index, one)| {
        let others = writes.iter().enumerate().filter(|(other, _)| *other != index);
        let meets = |other: &Request| meets(one, other) && other.span.1 - one.span.0 > STAMPED_LATE;
        others.into_iter().any(|(_, other)| one.pool == other.pool && meets(other))
    });
    (most, of_one_pool)
}
