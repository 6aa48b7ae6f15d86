//! Kubernetes quantities, exact: whole nano-units in an `i128`, saturating, never a float. The ecosystem's crate reads
//! them by way of `f64`, which loses exactly the sums that decide whether a Pod fits; hence own code.
//!
//! Reading follows apimachinery's `resource.ParseQuantity`, with two differences on purpose: what is beyond an `i64`
//! of whole units saturates instead of wrapping, and a text without any digit (`m`, `.`, `+`) is refused instead of being 0.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use serde_json::Value;

use super::karpenter::RawResources;

/// Nano-units in one unit.
const UNIT: i128 = 1_000_000_000;
/// The largest quantity, in nano-units: `i64::MAX` units, since that is what Kubernetes itself computes with.
const MAX: i128 = i64::MAX as i128 * UNIT;

/// An exact quantity of a resource, in nano-units (1 cpu = 10^9, 1 byte = 10^9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Quantity(pub i128);

/// A text that is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no quantity")]
pub struct NotAQuantity(
    /// What stands there, quoted.
    pub String,
);

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// This many whole units.
    pub fn units(units: i64) -> Self {
        Self::saturated(i128::from(units) * UNIT)
    }

    fn saturated(nanos: i128) -> Self {
        Self(nanos.clamp(-MAX, MAX))
    }

    /// Reads a quantity as Kubernetes does. What is smaller than a nano-unit is rounded up (away from zero), what is
    /// beyond an `i64` of units saturates.
    ///
    /// # Errors
    /// Names the text. It is never read as 0.
    pub fn parse(text: &str) -> Result<Self, NotAQuantity> {
        read(text).ok_or_else(|| NotAQuantity(format!("{text:?}")))
    }

    /// Reads a quantity from a field of an object: a text, or a JSON number as in `limits: {cpu: 1000, nodes: 0}`.
    ///
    /// # Errors
    /// Names the value as JSON. `null` is no quantity.
    pub fn parse_value(value: &Value) -> Result<Self, NotAQuantity> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(NotAQuantity(value.to_string())),
        }
    }

    /// Whole units, rounded up (away from zero).
    pub fn value(self) -> i64 {
        let whole = self.0 / UNIT + (self.0 % UNIT).signum();
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }

    /// The sum.
    pub fn saturating_add(self, other: Self) -> Self {
        Self::saturated(self.0.saturating_add(other.0))
    }

    /// The difference, which may be negative.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self::saturated(self.0.saturating_sub(other.0))
    }

    /// Whether it is more than nothing.
    pub fn is_positive(self) -> bool {
        self.0 > 0
    }

    /// The canonical form for a resource: bytes with a binary suffix where they are divisible (`2933Mi`), everything else
    /// decimal (`1500m`, `2`, `1k`). Reading it gives the same quantity again.
    pub fn canonical(self, resource: &str) -> String {
        let bytes = matches!(resource, "memory" | "ephemeral-storage" | "storage") || resource.starts_with("hugepages-");
        if !bytes || self.0 % UNIT != 0 {
            return self.to_string();
        }
        let whole = self.0 / UNIT;
        let divisible = BINARY.iter().rev().find(|(_, power)| whole != 0 && whole % (1 << power) == 0);
        match divisible {
            Some((suffix, power)) => format!("{}{suffix}", whole / (1 << power)),
            None => whole.to_string(),
        }
    }
}

/// Binary suffixes and their powers of two.
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
/// Decimal suffixes and their powers of ten.
const DECIMAL: [(&str, i64); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

impl fmt::Display for Quantity {
    /// The canonical decimal form: the largest suffix that leaves a whole number.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (suffix, power) in DECIMAL.iter().rev() {
            let unit = power_of_ten(power + 9).unwrap_or(1);
            if self.0 != 0 && self.0 % unit == 0 {
                return write!(formatter, "{}{suffix}", self.0 / unit);
            }
        }
        write!(formatter, "0")
    }
}

fn power_of_ten(power: i64) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(power).ok()?)
}

/// Reads `[+-] digits [. digits] [suffix]`.
fn read(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, rest) = split_digits(unsigned);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (factor, exponent) = read_suffix(suffix)?;
    if fraction.is_empty()
        && let Some(nanos) = whole_nanos(whole, factor, exponent)
    {
        return Some(Quantity(if negative { -nanos } else { nanos }));
    }
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').skip_while(|&digit| digit == 0).collect();
    let shift = exponent.saturating_add(9).saturating_sub(i64::try_from(fraction.len()).ok()?);
    let nanos = scale(&digits, factor, shift);
    Some(Quantity(if negative { -nanos } else { nanos }))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// A suffix as a whole factor and a power of ten.
fn read_suffix(suffix: &str) -> Option<(u128, i64)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((1, *power));
    }
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((1 << power, 0));
    }
    // `1E` alone is exa, found above; with digits behind it is an exponent.
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((1, exponent.parse().ok()?))
}

/// Most quantities are a whole number of nano-units that a machine word holds; `None` for the others.
fn whole_nanos(whole: &str, factor: u128, exponent: i64) -> Option<i128> {
    let number: u64 = whole.parse().ok()?;
    let unit = power_of_ten(exponent.checked_add(9)?)?;
    let nanos = i128::from(number).checked_mul(i128::try_from(factor).ok()?)?.checked_mul(unit)?;
    Some(nanos.min(MAX))
}

/// `digits * factor * 10^shift`, rounded up to a whole number, at most [`MAX`]. `digits` has no leading zero.
fn scale(digits: &[u8], factor: u128, shift: i64) -> i128 {
    let length = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let before_point = length.saturating_add(shift);
    if digits.is_empty() {
        return 0;
    }
    if before_point > 29 {
        return MAX;
    }
    let (front, behind) = digits.split_at(usize::try_from(length.min(before_point)).unwrap_or(0));
    // Multiplies the digits behind the point by the factor, from the last to the first; what is carried out is whole.
    let (mut carry, mut rest) = (0_u128, false);
    for &digit in behind.iter().rev() {
        let product = u128::from(digit) * factor + carry;
        rest |= !product.is_multiple_of(10);
        carry = product / 10;
    }
    // Zeros between the point and the first digit.
    for _ in before_point..0 {
        if carry == 0 {
            break;
        }
        rest |= !carry.is_multiple_of(10);
        carry /= 10;
    }
    let front = front.iter().fold(0_u128, |number, &digit| number * 10 + u128::from(digit));
    let front =
        power_of_ten(shift.max(0)).and_then(|power| front.checked_mul(power.unsigned_abs())).and_then(|number| number.checked_mul(factor));
    let sum = front.and_then(|number| number.checked_add(carry)).and_then(|number| number.checked_add(u128::from(rest)));
    sum.and_then(|number| i128::try_from(number).ok()).map_or(MAX, |nanos| nanos.min(MAX))
}

/// Quantities by resource. What is not in it is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources(pub BTreeMap<String, Quantity>);

/// A quantity of a list that can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableResource {
    /// The resource.
    pub resource: String,
    /// What stands there.
    pub why: NotAQuantity,
}

impl Resources {
    /// Reads a list that may hold texts and numbers, as Karpenter's objects do.
    ///
    /// # Errors
    /// The first resource that can't be read.
    pub fn from_raw(raw: &RawResources) -> Result<Self, UnreadableResource> {
        Self::read(raw, Quantity::parse_value)
    }

    /// Reads a list of the Kubernetes API.
    ///
    /// # Errors
    /// The first resource that can't be read.
    pub fn from_api(list: &BTreeMap<String, ApiQuantity>) -> Result<Self, UnreadableResource> {
        Self::read(list, |quantity| Quantity::parse(&quantity.0))
    }

    fn read<T>(list: &BTreeMap<String, T>, parse: impl Fn(&T) -> Result<Quantity, NotAQuantity>) -> Result<Self, UnreadableResource> {
        let read = |(resource, value): (&String, &T)| match parse(value) {
            Ok(quantity) => Ok((resource.clone(), quantity)),
            Err(why) => Err(UnreadableResource { resource: resource.clone(), why }),
        };
        Ok(Self(list.iter().map(read).collect::<Result<_, _>>()?))
    }

    /// As a list of the Kubernetes API, in canonical form.
    pub fn to_api(&self) -> BTreeMap<String, ApiQuantity> {
        self.0.iter().map(|(resource, quantity)| (resource.clone(), ApiQuantity(quantity.canonical(resource)))).collect()
    }

    /// How much of a resource; 0 where it is not in the list.
    pub fn get(&self, resource: &str) -> Quantity {
        self.0.get(resource).copied().unwrap_or_default()
    }

    /// Adds another list.
    pub fn add(&mut self, other: &Self) {
        for (resource, quantity) in &other.0 {
            match self.0.get_mut(resource) {
                Some(sum) => *sum = sum.saturating_add(*quantity),
                None => drop(self.0.insert(resource.clone(), *quantity)),
            }
        }
    }

    /// The sum of lists.
    pub fn sum<'a>(lists: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        lists.into_iter().for_each(|list| sum.add(list));
        sum
    }

    /// Raises each resource to what another list has, where that is more.
    pub fn raise_to(&mut self, other: &Self) {
        for (resource, quantity) in &other.0 {
            match self.0.get_mut(resource) {
                Some(have) => *have = *quantity.max(have),
                None => drop(self.0.insert(resource.clone(), *quantity)),
            }
        }
    }

    /// What remains of each of its resources; may be negative.
    pub fn saturating_sub(&self, other: &Self) -> Self {
        Self(self.0.iter().map(|(resource, quantity)| (resource.clone(), quantity.saturating_sub(other.get(resource)))).collect())
    }

    /// Whether every resource asked for is there; what `room` doesn't have is 0.
    pub fn fits(&self, room: &Self) -> bool {
        self.0.iter().all(|(resource, quantity)| *quantity <= room.get(resource))
    }
}

impl fmt::Display for Resources {
    /// `cpu 1500m, memory 2933Mi`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(formatter, "nothing");
        }
        let parts: Vec<String> = self.0.iter().map(|(resource, quantity)| format!("{resource} {}", quantity.canonical(resource))).collect();
        write!(formatter, "{}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests;
