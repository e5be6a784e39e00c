//! Parameters of a request: in the query of its URL, and in its path.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::uri::{PathAndQuery, Uri};
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

/// Refuses a URL with an invalid percent-escape, or with escapes that are not UTF-8.
pub(crate) fn check_escapes(uri: &Uri) -> Result<(), Failure> {
    let url = uri.path_and_query().map_or("", PathAndQuery::as_str);
    let (start, escapes) = url.split_once('%').unwrap_or((url, ""));
    let mut decoded = start.as_bytes().to_vec();
    if start.len() < url.len() {
        for escape in escapes.split('%') {
            let digits = escape.get(..2).filter(|digits| !digits.starts_with('+'));
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            let Some(byte) = byte else {
                let what = "a `%` in the URL is not followed by two hexadecimal digits; write \
                            `%25` for the character `%`";
                return Err(Failure::Parameter(what.to_owned()));
            };
            decoded.push(byte);
            decoded.extend_from_slice(&escape.as_bytes()[2..]);
        }
    }
    match std::str::from_utf8(&decoded) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::Parameter("the escapes in the URL are not UTF-8".to_owned())),
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

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use crate::test_server::TestServer;

    #[tokio::test]
    async fn damaged_escapes_are_refused() {
        let server = TestServer::open();
        for path in [
            "/v1/documents/%zz",
            "/v1/documents/a%",
            "/v1/documents/a%4",
            "/v1/documents/%ff",
            "/v1/documents?label=%zz",
            "/v1/documents?label=%c3",
            "/v1/documents?label=%+1",
        ] {
            let reply = server.get(path).await;
            assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{path} {reply:?}");
            assert_eq!(reply.code(), "parameter", "{path}");
        }
        for path in ["/v1/documents/a%25", "/v1/documents/%c3%a9?x=%20"] {
            assert_eq!(server.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
        }
    }
}
