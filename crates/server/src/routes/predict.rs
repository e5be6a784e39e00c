//! Requests about a client's documents: predictions, explanations and neighbors.

use axum::extract::{Request, State};
use axum::response::Response;
use classify::text::corpus::{IdUse, LabelUse};

use super::json_of;
use crate::access::AnsweredDocuments;
use crate::answer::{AnswerKind, AnswerParameters, Question};
use crate::body::{self, BodyFormat};
use crate::documents::{DocumentRules, RequestDocuments, log_texts, parse};
use crate::failure::{ErrorReport, Failure};
use crate::parameters::Parameters;
use crate::queue::{AnsweredRequest, DocumentSource};
use crate::schema::{OneOrMore, Prediction};
use crate::shared::Shared;
use crate::stream::answer_lines;

#[utoipa::path(
    post,
    path = "/v1/predict",
    params(AnswerParameters),
    request_body = OneOrMore,
    responses(
        (status = 200, description = "The labels of each document", body = Prediction),
        (status = 413, description = "Too large", body = ErrorReport),
        (status = 422, description = "A document does not fit the model", body = ErrorReport),
        (status = 429, description = "Too many requests are waiting", body = ErrorReport),
    )
)]
pub(crate) async fn predict(
    shared: State<Shared>,
    parameters: Parameters<AnswerParameters>,
    request: Request,
) -> Result<Response, Failure> {
    answer(shared, parameters, request, AnswerKind::Prediction).await
}

#[utoipa::path(
    post,
    path = "/v1/explain",
    params(AnswerParameters),
    request_body = OneOrMore,
    responses((
        status = 200,
        description = "Explanation of the labels of each document: schema classify.explanation/1",
    ))
)]
pub(crate) async fn explain(
    shared: State<Shared>,
    parameters: Parameters<AnswerParameters>,
    request: Request,
) -> Result<Response, Failure> {
    answer(shared, parameters, request, AnswerKind::Explanation).await
}

#[utoipa::path(
    post,
    path = "/v1/neighbors",
    params(AnswerParameters),
    request_body = OneOrMore,
    responses((
        status = 200,
        description = "The training documents most similar to each document",
        body = Prediction,
    ))
)]
pub(crate) async fn neighbors(
    shared: State<Shared>,
    parameters: Parameters<AnswerParameters>,
    request: Request,
) -> Result<Response, Failure> {
    answer(shared, parameters, request, AnswerKind::Neighbors).await
}

async fn answer(
    State(shared): State<Shared>,
    Parameters(parameters): Parameters<AnswerParameters>,
    request: Request,
    kind: AnswerKind,
) -> Result<Response, Failure> {
    let question = Question::new(kind, &parameters)?;
    let options = &shared.state.options;
    let format = BodyFormat::of(request.headers())?;
    if format == BodyFormat::Lines {
        return Ok(answer_lines(shared, question, request.into_body()));
    }
    let mut memory = shared.memory.reservation();
    let bytes = body::read(request.into_body(), options, &mut memory).await?;
    let live = shared.state.live();
    let rules = DocumentRules {
        max_documents: options.max_documents,
        labels: LabelUse::Optional,
        ids: IdUse::Numbered,
        notes: None,
    };
    let RequestDocuments { documents, is_one } = parse(&bytes, format, &live, &rules)?;
    drop(bytes);
    question.check_size(documents.len(), &live)?;
    log_texts(options.log_texts, &documents);
    let answers = shared.queue.answer(documents, question.mode(), DocumentSource::Request).await?;
    if question.is_short() {
        return Ok(respond(&question, &answers, is_one));
    }
    // Writing a long answer would block other requests.
    let body = tokio::task::spawn_blocking(move || {
        let _memory = memory;
        respond(&question, &answers, is_one)
    });
    body.await.map_err(|_| Failure::Internal)
}

fn respond(question: &Question, answers: &AnsweredRequest, is_one: bool) -> Response {
    let mut response = json_of(&answers.live, question.write_all(answers, is_one));
    let count = answers.documents.len() as u64;
    response.extensions_mut().insert(AnsweredDocuments(count));
    response
}
