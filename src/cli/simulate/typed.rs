//! Times and windows as they are typed on the command line.

use chrono::{NaiveDate, TimeDelta};
use serde_json::{Value, json};

use crate::{
    api::{
        time::{Time, later, parse_annotation},
        zone::Zone,
    },
    cli::{
        check::{grace, lifetime},
        span,
    },
    policy::{Policy, Window, read},
    schedule::window::Schedule,
};

/// The days of a week, in order.
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// When something is, and is not: a stretch of time, or one a day.
#[derive(Debug, Clone, PartialEq)]
pub enum When {
    /// From the opening of the first window on.
    For(TimeDelta),
    /// `[from, to)`.
    Between(Time, Time),
    /// Each day, in this zone or that of the windows.
    Daily(Box<Window>, bool),
}

/// An instant, or the midnight in UTC that a day begins with.
pub fn instant(text: &str) -> Result<Time, &'static str> {
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().and_then(|day| day.and_hms_opt(0, 0, 0));
    let time = day.map(|midnight| midnight.and_utc()).or_else(|| parse_annotation(text));
    time.map(whole).ok_or("write a day such as 2030-01-07, or an instant such as 2030-01-07T06:00:00Z")
}

/// Without the part of a second.
pub fn whole(time: Time) -> Time {
    Time::from_timestamp(time.timestamp(), 0).unwrap_or(time)
}

/// `expireAfter`, as Karpenter takes it.
pub fn expire_after(text: &str) -> Result<String, &'static str> {
    lifetime(text).map(|_| text.to_owned())
}

/// `terminationGracePeriod`, as Karpenter takes it.
pub fn tgp(text: &str) -> Result<String, &'static str> {
    grace(text).map(|_| text.to_owned())
}

/// `FROM/TO`.
fn between(text: &str) -> Option<Result<When, String>> {
    let (from, to) = text.split_once('/')?;
    Some(match (instant(from), instant(to)) {
        (Ok(from), Ok(to)) if from < to => Ok(When::Between(from, to)),
        (Ok(_), Ok(_)) => Err("the second instant has to be later than the first".into()),
        (Err(why), _) | (_, Err(why)) => Err(why.into()),
    })
}

/// An outage: `6h`, or `FROM/TO`.
pub fn outage(text: &str) -> Result<When, String> {
    let advice = "write a duration such as 6h, or FROM/TO with two instants";
    between(text).unwrap_or_else(|| span::positive(text).map(When::For).map_err(|_| advice.into()))
}

/// Hours without capacity: `02:00-03:00`, perhaps with a zone, or `FROM/TO`.
pub fn hours(text: &str) -> Result<When, String> {
    if let Some(when) = between(text).filter(|_| !text.contains(' ')) {
        return when;
    }
    let advice = || "write hours such as 02:00-03:00 or \"02:00-03:00 Europe/Berlin\", or FROM/TO with two instants".to_owned();
    let mut words = text.split_whitespace();
    let (start, end) = words.next().and_then(|hours| hours.split_once('-')).ok_or_else(advice)?;
    let (zone, rest) = (words.next(), words.next());
    if rest.is_some() {
        return Err(advice());
    }
    let entry = json!({"timezone": zone.unwrap_or("UTC"), "days": DAYS, "start": start, "end": end});
    let policy = under(vec![entry])?;
    let window = policy.settings.windows.into_iter().next().ok_or_else(advice)?;
    Ok(When::Daily(Box::new(window), zone.is_some()))
}

/// An entry of `maintenanceWindows`: `Wed,Sat 02:00-06:00 Europe/Berlin`.
pub fn window(text: &str) -> Result<Value, String> {
    let advice = || "write days, hours and a zone, such as \"Wed,Sat 02:00-06:00 Europe/Berlin\"; without a zone it is UTC".to_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    let (days, hours, zone) = match words.as_slice() {
        [days, hours] => (days, hours, "UTC"),
        [days, hours, zone] => (days, hours, *zone),
        _ => return Err(advice()),
    };
    let (start, end) = hours.split_once('-').ok_or_else(advice)?;
    let days: Vec<String> = days.split(',').flat_map(run_of_days).collect();
    let entry = json!({"timezone": zone, "days": days, "start": start, "end": end});
    under(vec![entry.clone()]).map(|_| entry)
}

/// `Mon-Fri` is five days, `daily` is seven.
fn run_of_days(text: &str) -> Vec<String> {
    let place = |day: &str| DAYS.iter().position(|known| known.eq_ignore_ascii_case(day));
    if text.eq_ignore_ascii_case("daily") {
        return DAYS.map(str::to_owned).into();
    }
    match text.split_once('-').and_then(|(first, last)| Some((place(first)?, place(last)?))) {
        Some((first, last)) => (0..=(last + 7 - first) % 7).map(|step| DAYS[(first + step) % 7].to_owned()).collect(),
        None => vec![text.to_owned()],
    }
}

/// A policy for every pool with these windows.
///
/// # Errors
/// What is wrong with them, each with its field.
pub fn under(windows: Vec<Value>) -> Result<Policy, String> {
    let object = json!({
        "metadata": {"name": "windows", "uid": "windows", "generation": 1},
        "spec": {"nodePoolSelector": {}, "maintenanceWindows": windows, "surge": {"readyTimeout": "20m"}},
    });
    let policy = read::policy(&object);
    let problems = policy.problems.iter().map(|problem| {
        let text = problem.to_string();
        text.strip_prefix("spec.maintenanceWindows[0].").unwrap_or(&text).to_owned()
    });
    let problems: Vec<String> = problems.collect();
    if problems.is_empty() { Ok(policy) } else { Err(problems.join("; ")) }
}

impl When {
    /// The stretches of time between these instants, in order.
    pub fn stretches(&self, from: Time, until: Time, zone: Zone, first_opening: Option<Time>) -> Vec<(Time, Time)> {
        match self {
            Self::For(span) => {
                let begin = first_opening.unwrap_or(from);
                vec![(begin, later(begin, *span))]
            }
            Self::Between(from, to) => vec![(*from, *to)],
            Self::Daily(window, has_zone) => {
                let window = Window { timezone: if *has_zone { window.timezone } else { zone }, ..(**window).clone() };
                let schedule = Schedule::of(&[window], from);
                let inside = schedule.occurrences.iter().filter(|occurrence| occurrence.end > from && occurrence.start < until);
                inside.map(|occurrence| (occurrence.start, occurrence.end)).collect()
            }
        }
    }
}
