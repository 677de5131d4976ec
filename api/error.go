package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Code names a kind of failure. Codes are stable: scripts may compare them.
type Code string

// The codes that an agent answers with.
const (
	CodeBadRequest       Code = "bad_request"            // 400: the request is malformed; sending it again will not help
	CodeUnknownKey       Code = "unknown_key"            // 400: a JSON key that this endpoint does not have
	CodeBadDuration      Code = "bad_duration"           // 400: a duration without a unit, negative, or not one at all
	CodeBadName          Code = "bad_name"               // 400: an attribute or session name that is not allowed
	CodeUnauthorized     Code = "unauthorized"           // 401: a token is needed
	CodeForbidden        Code = "forbidden"              // 403: the token's role does not allow this
	CodeForeignHost      Code = "foreign_host"           // 403: Host or Origin is not the agent's own
	CodeNotFound         Code = "not_found"              // 404: no such thing
	CodeUnknownSession   Code = "unknown_session"        // 404: certainly no such session
	CodeUnknownAttribute Code = "unknown_attribute"      // 404: the session has no such attribute
	CodeUnknownPath      Code = "unknown_path"           // 404: no such endpoint
	CodeMethodNotAllowed Code = "method_not_allowed"     // 405: the endpoint has other methods, see Allow
	CodeConflict         Code = "conflict"               // 409: the present state forbids it
	CodeKeyReused        Code = "idempotency_key_reused" // 409: the same key came with another body
	CodeSessionExists    Code = "session_exists"         // 409: a session with this id exists
	CodeNotANumber       Code = "not_a_number"           // 409: incr on something else
	CodeNotAnArray       Code = "not_an_array"           // 409: append to something else
	CodeOutOfRange       Code = "out_of_range"           // 409: incr beyond what a number holds
	CodeQuorum           Code = "would_break_quorum"     // 409: leaving now would cost the cluster its quorum
	CodeVersionMismatch  Code = "version_mismatch"       // 412: If-Match does not hold
	CodeTooLarge         Code = "too_large"              // 413: the body is over its limit
	CodeSessionTooLarge  Code = "session_too_large"      // 413: the session would be over session.max_size
	CodeInternal         Code = "internal"               // 500: a fault of the agent's
	CodeUnhealthy        Code = "unhealthy"              // 503: the health endpoint's no
	CodeUnavailable      Code = "unavailable"            // 503: it cannot be told now; try again
	CodeNoLeader         Code = "no_leader"              // 503: needs a leader, and there is none now
	CodeDraining         Code = "draining"               // 503: this member takes no new sessions
	CodeOverloaded       Code = "overloaded"             // 503: too many requests wait for this session
	CodeTooFewCopies     Code = "too_few_copies"         // 503: fewer members are in sync than the request wants
	CodeLeaving          Code = "leaving"                // 503: the agent is leaving the cluster: ask another one
	CodeNoOwner          Code = "no_owner"               // 503: the session's owner cannot be reached or is being replaced
	CodeNoTable          Code = "no_table"               // 503: this agent cannot tell yet whose the session is
	CodeNotCertain       Code = "not_certain"            // 503: those who may hold the session cannot be asked
	CodeOutcomeUnknown   Code = "outcome_unknown"        // 504: it may have happened; repeat it with the same Idempotency-Key
)

// Error is an agent's answer that is not a success.
type Error struct {
	StatusCode int           `json:"-"`
	Message    string        `json:"Error"`
	Code       Code          `json:"Code"`
	RetryAfter time.Duration `json:"-"` // how long to wait before trying again; 0: not said
}

// Error returns the agent's own words, and the code.
func (e *Error) Error() string {
	msg := e.Message
	if msg == "" {
		msg = http.StatusText(e.StatusCode)
	}
	if e.Code == "" {
		return fmt.Sprintf("%s (HTTP status %d)", msg, e.StatusCode)
	}
	return fmt.Sprintf("%s (%s)", msg, e.Code)
}

// HasCode reports whether err is, or wraps, an [*Error] with that code.
func HasCode(err error, code Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// HasStatus reports whether err is, or wraps, an [*Error] with that HTTP
// status.
func HasStatus(err error, status int) bool {
	var e *Error
	return errors.As(err, &e) && e.StatusCode == status
}

// IsNotFound reports whether the agent said that the thing certainly is not
// there. An agent that cannot tell answers otherwise.
func IsNotFound(err error) bool { return HasStatus(err, http.StatusNotFound) }

// IsUnreachable reports whether no agent answered at all.
func IsUnreachable(err error) bool {
	var e *UnreachableError
	return errors.As(err, &e)
}

// UnreachableError means that no agent answered at the address. Whether a
// request reached one before the connection broke is not known.
type UnreachableError struct {
	Address string // as configured: a URL, or unix://PATH
	Err     error
}

// Error is one line that names the address tried.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no agent answers at %s: %s", e.Address, cause(e.Err))
}

// Unwrap returns what the network said.
func (e *UnreachableError) Unwrap() error { return e.Err }
