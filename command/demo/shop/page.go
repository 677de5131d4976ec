package shop

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"os"
)

//go:embed page.html
var pageText string

// line is a product with what of it is in the cart.
type line struct {
	Product
	Count int
	Price string
	Sum   string
}

// view is what the page shows.
type view struct {
	Lines    []line // all products
	InCart   []line
	Count    int
	Total    string
	Cart     Cart
	Session  string // shortened
	PID      int
	Problem  string // why there is no cart to show
	Instance string
	Member   string
}

func (s *Shop) view(session string, cart Cart) view {
	v := view{Cart: cart, Session: shorten(session), PID: os.Getpid(), Instance: s.cfg.Name, Member: s.cfg.Member}
	total := 0
	for _, p := range Products() {
		l := line{Product: p, Count: cart.Items[p.ID], Price: Price(p.Cents), Sum: Price(p.Cents * cart.Items[p.ID])}
		v.Lines = append(v.Lines, l)
		if l.Count > 0 {
			v.InCart = append(v.InCart, l)
			v.Count += l.Count
			total += p.Cents * l.Count
		}
	}
	v.Total = Price(total)
	return v
}

// shorten shows enough of a session's id to recognise it and too little to use
// it.
func shorten(session string) string {
	const shown = 8
	if len(session) <= 2*shown {
		return session[:len(session)/2] + "…"
	}
	return "…" + session[len(session)-shown:]
}

func (s *Shop) page(w http.ResponseWriter, r *http.Request) {
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
	s.render(w, http.StatusOK, s.view(session, cart))
}

// fail answers with what went wrong.
func (s *Shop) fail(w http.ResponseWriter, r *http.Request, status int, err error) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if wantsJSON(r) {
		writeJSON(w, status, map[string]string{"error": err.Error()})
		return
	}
	v := s.view("", Cart{})
	v.Problem = err.Error()
	s.render(w, status, v)
}

func (s *Shop) render(w http.ResponseWriter, status int, v view) {
	var b bytes.Buffer
	if err := s.template.Execute(&b, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

func parsePage() (*template.Template, error) { return template.New("page").Parse(pageText) }
