package check

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// maxReason bounds what is told of an answer.
const maxReason = 200

// errWarning is in what says of an answer that it is a warning.
var errWarning = errors.New("warning")

// probe tests once. It returns why the instance is healthy, or the error that
// says why not.
func (s Spec) probe(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	var why string
	var err error
	if s.TCP != "" {
		why, err = s.probeTCP(ctx)
	} else {
		why, err = s.probeHTTP(ctx)
	}
	if err != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)) {
		err = fmt.Errorf("no answer within %v", s.Timeout)
	}
	return why, err
}

func (s Spec) probeTCP(ctx context.Context) (string, error) {
	conn, err := s.dial(ctx, "tcp", s.TCP)
	if err != nil {
		return "", err
	}
	conn.Close()
	return "connected", nil
}

// dial makes a connection that begins with the preface.
func (s Spec) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil || s.Preface == "" {
		return conn, err
	}
	conn.SetWriteDeadline(time.Now().Add(s.Timeout)) // fails on a closed connection, as the write will
	if _, err := io.WriteString(conn, s.Preface); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func (s Spec) probeHTTP(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, s.Method, s.HTTP, nil)
	if err != nil {
		return "", err
	}
	req.Host = s.Host
	req.Header.Set("User-Agent", "rondel-check")
	// A transport of its own: no connection is shared with another probe, let
	// alone with users, and none is left behind.
	transport := &http.Transport{
		DialContext:            s.dial,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 256 << 10,
		// A certificate proves nothing about health, and names an address
		// that the agent does not use.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: serverName(s.Host)},
	}
	transport.Protocols = s.protocols()
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return "", err
	}
	defer resp.Body.Close()
	switch {
	case s.Status.has(resp.StatusCode):
	case s.Warning.has(resp.StatusCode):
		return "", fmt.Errorf("status %d: %w", resp.StatusCode, errWarning)
	default:
		return "", fmt.Errorf("status %d, want %s", resp.StatusCode, s.Status)
	}
	if s.Contains != "" {
		body, err := io.ReadAll(io.LimitReader(resp.Body, s.BodyLimit))
		if err != nil {
			return "", fmt.Errorf("read body: %w", err)
		}
		if !bytes.Contains(body, []byte(s.Contains)) {
			return "", fmt.Errorf("the first %d bytes of the body do not contain %q", len(body), s.Contains)
		}
	}
	return fmt.Sprintf("status %d", resp.StatusCode), nil
}

// protocols are those that the instance speaks: one that knows HTTP/2 alone
// would take the other for nonsense.
func (s Spec) protocols() *http.Protocols {
	p := &http.Protocols{}
	switch s.Protocol {
	case "h2":
		p.SetHTTP2(true)
	case "h2c":
		p.SetUnencryptedHTTP2(true)
	default:
		p.SetHTTP1(true)
	}
	return p
}

func serverName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return host
}

func cut(s string) string {
	if len(s) > maxReason {
		return s[:maxReason]
	}
	return s
}
