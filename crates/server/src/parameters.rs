//! Parameters of a request: in the query of its URL, and in its path.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};

use crate::failure::Failure;

/// The parameters in the query of a URL.
#[derive(Debug)]
pub(crate) struct Parameters<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let Query(parameters) = Query::try_from_uri(&parts.uri).map_err(|error| {
            // The message of axum's rejection is not meant for people.
            let source = std::error::Error::source(&error).map(ToString::to_string);
            Failure::Parameter(source.unwrap_or_else(|| error.body_text()))
        })?;
        Ok(Self(parameters))
    }
}

/// The identifier of a document in the path of a URL.
#[derive(Debug)]
pub(crate) struct DocumentId(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for DocumentId {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let Path(id) = Path::from_request_parts(parts, state).await.map_err(|_| {
            Failure::Parameter("the identifier in the path is not valid UTF-8".to_owned())
        })?;
        Ok(Self(id))
    }
}

/// Reads an optional whole number.
pub(crate) fn whole_number<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
{
    value(from, "a whole number").map(Some)
}

/// Reads an optional `true` or `false`.
pub(crate) fn yes_or_no<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    value(from, "true or false").map(Some)
}

fn value<'de, D, T>(from: D, expected: impl Display) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
{
    let text = String::deserialize(from)?;
    text.parse().map_err(|_| D::Error::custom(format!("`{text}`, expected {expected}")))
}
