//! Advice for the user after an I/O error.

use std::io::ErrorKind;

/// Returns advice for the user after a failed read, or `None` if there is none for this error.
///
/// ```
/// use std::io::ErrorKind;
///
/// let hint = array_file::hint_to_read(ErrorKind::PermissionDenied).unwrap();
/// assert!(hint.contains("read"));
/// assert_eq!(array_file::hint_to_read(ErrorKind::Other), None);
/// ```
pub fn hint_to_read(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Some("check the name of the file"),
        ErrorKind::PermissionDenied => Some("you have no permission to read it: ask its owner"),
        ErrorKind::IsADirectory => Some("use the name of a file in it"),
        ErrorKind::OutOfMemory => Some("free memory, or use a machine with more memory"),
        _ => None,
    }
}

/// Returns advice for the user after a failed write, or `None` if there is none for this error.
///
/// ```
/// use std::io::ErrorKind;
///
/// assert!(array_file::hint_to_write(ErrorKind::StorageFull).unwrap().contains("space"));
/// assert_eq!(array_file::hint_to_write(ErrorKind::Other), None);
/// ```
pub fn hint_to_write(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Some("free some space, or write to another disk")
        }
        ErrorKind::FileTooLarge => {
            Some("the file system or `ulimit -f` limits the file size: write to another place")
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            Some("you have no permission to write there: choose another folder")
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Some("make the folder first, or check its name")
        }
        ErrorKind::IsADirectory => Some("use the name of a file in it"),
        ErrorKind::OutOfMemory => Some("free memory, or use a machine with more memory"),
        _ => None,
    }
}
