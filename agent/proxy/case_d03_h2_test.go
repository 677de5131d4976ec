package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// teller is a gRPC service with calls of every kind.
var teller = grpc.ServiceDesc{
	ServiceName: "rondel.test.Teller",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Ask", Handler: func(_ any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var q wrapperspb.StringValue
		if err := dec(&q); err != nil {
			return nil, err
		}
		switch q.Value {
		case "fail":
			return nil, status.Error(codes.FailedPrecondition, "not today: 5 > 4 %")
		case "hang":
			<-ctx.Done()
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		md, _ := metadata.FromIncomingContext(ctx)
		grpc.SetTrailer(ctx, metadata.Pairs("asked", q.Value))
		return wrapperspb.String(q.Value + " " + strings.Join(md.Get("who"), ",")), nil
	}}},
	Streams: []grpc.StreamDesc{
		{StreamName: "Count", ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
			var q wrapperspb.StringValue
			if err := s.RecvMsg(&q); err != nil {
				return err
			}
			for n := range 100 {
				if err := s.SendMsg(wrapperspb.String(fmt.Sprint(n, strings.Repeat(q.Value, 1000)))); err != nil {
					return err
				}
			}
			return nil
		}},
		{StreamName: "Sum", ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
			size := 0
			for {
				var q wrapperspb.StringValue
				if err := s.RecvMsg(&q); errors.Is(err, io.EOF) {
					return s.SendMsg(wrapperspb.String(fmt.Sprint(size)))
				} else if err != nil {
					return err
				}
				size += len(q.Value)
			}
		}},
		{StreamName: "Talk", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
			for {
				var q wrapperspb.StringValue
				if err := s.RecvMsg(&q); errors.Is(err, io.EOF) {
					return status.Error(codes.ResourceExhausted, "talked out")
				} else if err != nil {
					return err
				}
				if err := s.SendMsg(wrapperspb.String("you said " + q.Value)); err != nil {
					return err
				}
			}
		}},
	},
}

// startGRPC runs an instance that speaks gRPC without TLS.
func startGRPC(t testing.TB, id string) Instance {
	t.Helper()
	s := grpc.NewServer()
	s.RegisterService(&teller, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(ln); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { s.Stop(); <-done })
	return Instance{Service: "shop", ID: id, Member: "m1", Addr: ln.Addr().String(), Weight: 100, Health: Passing, Protocol: "h2c"}
}

func TestCase_D03_gRPC(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("tls ", secure), func(t *testing.T) {
			t.Parallel()
			// One instance refuses connections: calls, which are POSTs, go to the next.
			gone := startApp(t, "gone", echo("gone"))
			dead := instanceOf(gone, "m1")
			dead.Protocol = "h2c"
			gone.kill()
			p, err := New(Options{Config: h2cConfig(), Sessions: newSessions(), TagKey: []byte("k")})
			if err != nil {
				t.Fatal(err)
			}
			p.SetInstances([]Instance{dead, startGRPC(t, "a1")})
			creds := insecure.NewCredentials()
			ln := listen(t)
			if secure {
				lender := httptest.NewUnstartedServer(nil)
				lender.StartTLS()
				defer lender.Close()
				ln = &Door{Listener: ln, TLS: &tls.Config{Certificates: lender.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}}
				creds = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
			}
			r := serveRigOn(t, p, ln)
			conn, err := grpc.NewClient("passthrough:///"+r.addr, grpc.WithTransportCredentials(creds))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			callAll(t, conn)
			eventually(t, "nothing is under way", func() bool { return r.Totals().InFlight == 0 })
		})
	}
}

func callAll(t *testing.T, conn *grpc.ClientConn) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	const name = "/rondel.test.Teller/"
	ask := func(ctx context.Context, q string, opts ...grpc.CallOption) (string, error) {
		var a wrapperspb.StringValue
		err := conn.Invoke(ctx, name+"Ask", wrapperspb.String(q), &a, opts...)
		return a.Value, err
	}
	var trailer metadata.MD
	for range 4 {
		if a, err := ask(metadata.AppendToOutgoingContext(ctx, "who", "me"), "hello", grpc.Trailer(&trailer)); err != nil || a != "hello me" || fmt.Sprint(trailer.Get("asked")) != "[hello]" {
			t.Fatalf("unary: %q %v %v", a, err, trailer)
		}
	}
	if _, err := ask(ctx, "fail"); status.Code(err) != codes.FailedPrecondition || status.Convert(err).Message() != "not today: 5 > 4 %" {
		t.Errorf("error status: %v", err)
	}
	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if _, err := ask(short, "hang"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("deadline: %v", err)
	}
	open := func(n int) grpc.ClientStream {
		s, err := conn.NewStream(ctx, &teller.Streams[n], name+teller.Streams[n].StreamName)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var a wrapperspb.StringValue

	s := open(0)
	must(s.SendMsg(wrapperspb.String("x")))
	must(s.CloseSend())
	for n := range 100 {
		must(s.RecvMsg(&a))
		if !strings.HasPrefix(a.Value, fmt.Sprint(n, "xxx")) {
			t.Fatalf("%d: %.20q", n, a.Value)
		}
	}
	if err := s.RecvMsg(&a); !errors.Is(err, io.EOF) {
		t.Errorf("end of the server's stream: %v", err)
	}

	s = open(1)
	for range 300 {
		must(s.SendMsg(wrapperspb.String(strings.Repeat("y", 4000))))
	}
	must(s.CloseSend())
	if must(s.RecvMsg(&a)); a.Value != "1200000" {
		t.Errorf("sum %s", a.Value)
	}

	s = open(2)
	for n := range 20 {
		must(s.SendMsg(wrapperspb.String(fmt.Sprint(n))))
		if must(s.RecvMsg(&a)); a.Value != fmt.Sprint("you said ", n) {
			t.Fatalf("%q", a.Value)
		}
	}
	must(s.CloseSend())
	if err := s.RecvMsg(&a); status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != "talked out" {
		t.Errorf("end of the talk: %v", err)
	}
}

// Trailers pass between all that clients and instances may speak.
func TestCase_D03_trailersOverHTTP2(t *testing.T) {
	t.Parallel()
	h1 := startApp(t, "a1", raw(nil, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Told\r\n\r\n2\r\nhi\r\n0\r\nX-Told: 1\r\nX-Sum: 2\r\n\r\n"))
	empty := startApp(t, "a2", raw(nil, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Told: 1\r\nX-Sum: 2\r\n\r\n"))
	h2 := startH2App(t, false, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Trailer", "X-Told")
		io.WriteString(w, "hi")
		w.Header().Set("X-Told", "1")
		w.Header().Set(http.TrailerPrefix+"X-Sum", "2")
	})
	for name, in := range map[string]Instance{"http1": instanceOf(h1, "m1"), "empty": instanceOf(empty, "m1"), "h2c": h2.instance("a1", "h2c")} {
		r := startRig(t, setup{cfg: h2cConfig(), apps: []Instance{in}})
		want := "hi"
		if name == "empty" {
			want = ""
		}
		check := func(over string, resp *http.Response, body string) {
			if body != want || resp.Trailer.Get("X-Told") != "1" || resp.Trailer.Get("X-Sum") != "2" {
				t.Errorf("%s over %s: %q %v", name, over, body, resp.Trailer)
			}
		}
		resp, body := h2Get(t, h2Client(t), "http://"+r.addr+"/")
		check("HTTP/2", resp, body)
		_, br := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\nTE: trailers\r\n\r\n")
		resp, body = read(t, br, "GET")
		check("HTTP/1.1", resp, body)
	}
}
