package shop

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// The headers by which the proxy and the shop speak.
const (
	sessionHeader = "Rondel-Session"
	requestHeader = "Rondel-Request-Id"
	keyHeader     = "Idempotency-Key"
)

var errNoSession = errors.New("no session came with the request: it did not come through a Rondel proxy")

func (s *Shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /cart.json", s.cartJSON)
	mux.HandleFunc("POST /add", s.change(s.addItem))
	mux.HandleFunc("POST /remove", s.change(s.removeItem))
	mux.HandleFunc("POST /empty", s.change(s.emptyCart))
	return mux
}

// key is what makes a change safe to repeat: the client's own key where it has
// one, else the id that the proxy gave the request.
func key(r *http.Request) string {
	if own := r.Header.Get(keyHeader); own != "" {
		return own
	}
	return r.Header.Get(requestHeader)
}

type changed struct {
	answer any
	err    error
}

// change runs a change and answers a browser with the page again, and a program
// with JSON.
func (s *Shop) change(do func(r *http.Request, session string) changed) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		session := r.Header.Get(sessionHeader)
		if session == "" {
			s.fail(w, r, http.StatusBadRequest, errNoSession)
			return
		}
		out := do(r, session)
		switch {
		case errors.Is(out.err, errUnknownProduct):
			s.fail(w, r, http.StatusNotFound, out.err)
		case out.err != nil:
			s.fail(w, r, statusOf(out.err), out.err)
		case wantsJSON(r):
			writeJSON(w, http.StatusOK, out.answer)
		default:
			http.Redirect(w, r, "/", http.StatusSeeOther)
		}
	}
}

var errUnknownProduct = errors.New("the shop has no such product")

func (s *Shop) addItem(r *http.Request, session string) changed {
	p, ok := productOf(r.FormValue("item"))
	if !ok {
		return changed{err: errUnknownProduct}
	}
	added, err := s.add(r.Context(), session, p.ID, key(r))
	return changed{added, err}
}

func (s *Shop) removeItem(r *http.Request, session string) changed {
	p, ok := productOf(r.FormValue("item"))
	if !ok {
		return changed{err: errUnknownProduct}
	}
	if err := s.remove(r.Context(), session, p.ID, key(r)); err != nil {
		return changed{err: err}
	}
	cart, _, err := s.cart(r.Context(), session)
	return changed{cart, err}
}

func (s *Shop) emptyCart(r *http.Request, session string) changed {
	if err := s.empty(r.Context(), session, key(r)); err != nil {
		return changed{err: err}
	}
	cart, _, err := s.cart(r.Context(), session)
	return changed{cart, err}
}

func (s *Shop) cartJSON(w http.ResponseWriter, r *http.Request) {
	session := r.Header.Get(sessionHeader)
	if session == "" {
		s.fail(w, r, http.StatusBadRequest, errNoSession)
		return
	}
	cart, _, err := s.cart(r.Context(), session)
	if err != nil {
		s.fail(w, r, statusOf(err), err)
		return
	}
	writeJSON(w, http.StatusOK, cart)
}

func statusOf(err error) int {
	if unclear(err) {
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway
}

func wantsJSON(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, ".json") || strings.Contains(r.Header.Get("Accept"), "application/json")
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has gone: nobody to tell
}
