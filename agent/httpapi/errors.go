package httpapi

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/rondel-project/rondel/agent/session"
	"github.com/rondel-project/rondel/api"
)

// toAPI gives every error its status and code.
func toAPI(err error) *api.Error {
	var coded *api.Error
	var syntax *syntaxError
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.As(err, &syntax):
		return failure(http.StatusBadRequest, api.CodeBadRequest, "%s", err)
	case errors.Is(err, api.ErrDuration):
		return failure(http.StatusBadRequest, api.CodeBadDuration, "%s", err)
	case errors.Is(err, ErrInvalid):
		return failure(http.StatusBadRequest, api.CodeBadRequest, "%s", err)
	case errors.Is(err, ErrNotFound):
		return failure(http.StatusNotFound, api.CodeNotFound, "%s", err)
	case errors.Is(err, ErrConflict):
		return failure(http.StatusConflict, api.CodeConflict, "%s", err)
	case errors.Is(err, ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return failure(http.StatusServiceUnavailable, api.CodeUnavailable, "%s", err)
	}
	return failure(http.StatusInternalServerError, api.CodeInternal, "%s", err)
}

// engineError gives a session engine's refusal its status.
func engineError(r *session.Response) *api.Error {
	e := &api.Error{Message: r.Error, Code: api.Code(r.Code), RetryAfter: r.RetryAfter}
	code := func(status int, c api.Code, msg string) *api.Error {
		e.StatusCode = status
		if e.Code == "" {
			e.Code = c
		}
		if e.Message == "" {
			e.Message = msg
		}
		return e
	}
	switch r.Status {
	case session.NotFound:
		return code(http.StatusNotFound, api.CodeUnknownSession, "no such session; POST /v1/sessions makes one")
	case session.NoAttr:
		return code(http.StatusNotFound, api.CodeUnknownAttribute, "the session has no such attribute")
	case session.Invalid:
		return code(http.StatusBadRequest, api.CodeBadRequest, "the request is malformed")
	case session.Conflict:
		return code(http.StatusConflict, api.CodeConflict, "the session's state forbids this")
	case session.VersionDiffs:
		return code(http.StatusPreconditionFailed, api.CodeVersionMismatch, "the session has changed; read it again")
	case session.TooLarge:
		return code(http.StatusRequestEntityTooLarge, api.CodeSessionTooLarge, "the session would be too large")
	case session.UnknownEnd:
		return code(http.StatusGatewayTimeout, api.CodeOutcomeUnknown, "the change may or may not have happened; repeat it with the same Idempotency-Key")
	case session.Unavailable, session.Retry:
		return code(http.StatusServiceUnavailable, api.CodeUnavailable, "the session's owner cannot answer now; nothing was changed, try again")
	}
	return code(http.StatusInternalServerError, api.CodeInternal, "the session engine gave no answer")
}

// writeError answers with an error.
func writeError(w http.ResponseWriter, r *request, e *api.Error) {
	h := w.Header()
	h.Del("ETag")
	h.Del("Location")
	if e.StatusCode == http.StatusServiceUnavailable {
		h.Set("Retry-After", retryAfter(e.RetryAfter))
	}
	r.writeJSON(w, e.StatusCode, errorJSON(e))
}

func errorJSON(e *api.Error) []byte {
	b := appendString([]byte(`{"Error":`), e.Message)
	b = appendString(append(b, `,"Code":`...), string(e.Code))
	return append(b, '}')
}

// retryAfter is in whole seconds, and never "at once".
func retryAfter(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))
}
