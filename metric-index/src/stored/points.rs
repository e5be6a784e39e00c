//! Points that can be stored in files.

use super::contents::{FileContents, Value};
use super::reader::{Reader, StoreProblem, invalid, validate_ends};
use crate::points::{Points, Sets, Strings, Vectors};

/// Points that can be stored in a file. The stores of this crate implement this trait, and
/// user-defined stores can implement it.
///
/// ```
/// use metric_index::index::{Index, VpTree};
/// use metric_index::metric::Metric;
/// use metric_index::points::Points;
/// use metric_index::stored::{FileContents, Reader, StoreProblem, StoredPoints};
/// use metric_index::stored::{invalid, open, save};
///
/// /// Times of day, in minutes.
/// struct Times(Vec<u16>);
///
/// impl Points for Times {
///     type Point = u16;
///
///     fn len(&self) -> usize {
///         self.0.len()
///     }
///
///     fn point(&self, number: u32) -> &u16 {
///         &self.0[number as usize]
///     }
/// }
///
/// impl StoredPoints for Times {
///     fn name() -> String {
///         "times of day".to_owned()
///     }
///
///     fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
///         contents.array("points.minutes", &self.0);
///     }
///
///     fn read(file: &mut Reader) -> Result<Self, StoreProblem> {
///         let minutes = file.array::<u16>("points.minutes")?;
///         match minutes.iter().find(|&&minute| minute >= 1_440) {
///             Some(minute) => Err(invalid("points.minutes", format!("{minute} is too large"))),
///             None => Ok(Self(minutes.to_vec())),
///         }
///     }
/// }
///
/// struct ClockDistance;
///
/// impl Metric<u16> for ClockDistance {
///     fn distance(&self, a: &u16, b: &u16) -> f32 {
///         let difference = a.abs_diff(*b);
///         f32::from(difference.min(1_440 - difference))
///     }
///
///     fn relative_error(&self) -> f32 {
///         0.0
///     }
/// }
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("times.index");
/// save(&VpTree::build(Times(vec![10, 700, 1_430]), ClockDistance)?, &path)?;
/// let tree: VpTree<Times, ClockDistance> = open(&path, ClockDistance)?;
/// assert_eq!(tree.nearest(&1_435, 1)?[0].point, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait StoredPoints: Points + Sized {
    /// Returns the name of this type of points in files. A file whose points have a different name
    /// is rejected.
    fn name() -> String;

    /// Writes the points. Names of arrays and numbers start with `points.`; other names belong to
    /// the index.
    fn write<'a>(&'a self, contents: &mut FileContents<'a>);

    /// Reads the points that [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// Fails if the file lacks an array or a number, an array is damaged, or the values are
    /// invalid. Checksums do not protect against malicious files, so every value must be validated,
    /// and no file may make a search panic.
    fn read(file: &mut Reader) -> Result<Self, StoreProblem>;
}

impl<T: Value> StoredPoints for Vectors<T> {
    fn name() -> String {
        format!("vectors of {:?}", T::DTYPE)
    }

    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        contents.number("dimension", self.dimension() as u64);
        contents.array("points.values", self.values());
    }

    fn read(file: &mut Reader) -> Result<Self, StoreProblem> {
        let dimension = file.small("dimension")? as usize;
        Ok(Self::of(file.array("points.values")?, dimension)?)
    }
}

impl StoredPoints for Strings {
    fn name() -> String {
        "strings".to_owned()
    }

    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        let (text, ends) = self.parts();
        contents.array("points.text", text.as_bytes());
        contents.computed("points.ends", ends.iter().map(|&end| end as u64));
    }

    fn read(file: &mut Reader) -> Result<Self, StoreProblem> {
        let text = file.array::<u8>("points.text")?;
        let ends = file.array("points.ends")?;
        let text =
            std::str::from_utf8(&text).map_err(|_| invalid("points.text", "it is not UTF-8"))?;
        let ends = validate_ends(&ends, text.len(), "points.ends")?;
        if !ends.iter().all(|&end| text.is_char_boundary(end)) {
            return Err(invalid("points.ends", "it splits a character"));
        }
        Ok(Self::from_parts(text.to_owned(), ends))
    }
}

impl StoredPoints for Sets {
    fn name() -> String {
        "sets".to_owned()
    }

    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        let (members, ends) = self.parts();
        contents.array("points.members", members);
        contents.computed("points.ends", ends.iter().map(|&end| end as u64));
    }

    fn read(file: &mut Reader) -> Result<Self, StoreProblem> {
        let members = file.array::<u32>("points.members")?;
        let ends = file.array("points.ends")?;
        let ends = validate_ends(&ends, members.len(), "points.ends")?;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        Ok(Self::new(starts.zip(&ends).map(|(start, &end)| &members[start..end]))?)
    }
}
