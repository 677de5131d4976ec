package proxy

import (
	"net/http"
	"strconv"

	"github.com/rondel-project/rondel/agent/http1"
)

// forwards returns how many more proxies a request may pass, which only TRACE
// and OPTIONS say; ok is false where there is no bound.
func forwards(q *http1.Request) (left int, ok bool) {
	if m := string(q.Method); m != "OPTIONS" && m != "TRACE" {
		return 0, false
	}
	n, err := strconv.ParseUint(string(fieldValue(q, "max-forwards")), 10, 31)
	return int(n), err == nil
}

// last answers a request that may go no further.
func (x *exchange) last() (keep bool) {
	if string(x.q.Method) == "OPTIONS" {
		return x.answer(http.StatusNoContent, "")
	}
	return x.answer(http.StatusMethodNotAllowed, "this request may not be passed on")
}
