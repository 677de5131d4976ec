package api_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rondel-project/rondel/api"
)

func Example() {
	client, stop := newFakeAgent() // api.NewClient(api.DefaultConfig())
	defer stop()
	ctx := context.Background()

	session, err := client.Sessions().Create(ctx, api.SessionCreate{
		TTL:        api.Duration(30 * time.Minute),
		Attributes: map[string]any{"cart": []string{"book"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	read, err := client.Sessions().Get(ctx, session.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %s\n", read.TTL, read.Attributes["cart"])
	// Output: 30m ["book"]
}

func ExampleNewClient() {
	_, err := api.NewClient(api.Config{Address: "10.0.0.11:https"})
	fmt.Println(err)
	// Output: "10.0.0.11:https": not an agent's address: port "https" is not between 1 and 65535; write host:port, http://host:port, https://host:port or unix:///path
}

func ExampleAgent_Members() {
	client, stop := newFakeAgent()
	defer stop()
	members, err := client.Agent().Members(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range members {
		fmt.Println(m.Name, m.Status, m.Role)
	}
	// Output: web1 alive leader
}

func ExampleAgent_Register() {
	client, stop := newFakeAgent()
	defer stop()
	err := client.Agent().Register(context.Background(), api.ServiceRegistration{
		Name:   "shop",
		Port:   8080,
		Checks: []api.ServiceCheck{{HTTP: "/health", Interval: api.Duration(2 * time.Second)}},
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleCatalog_Service() {
	client, stop := newFakeAgent()
	defer stop()
	instances, index, err := client.Catalog().Service(context.Background(), "shop", true, api.Wait{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, in := range instances {
		fmt.Printf("%s on %s at %s:%d\n", in.ID, in.Member, in.Address, in.Port)
	}
	// Waits until something changes, at most a minute:
	// client.Catalog().Service(ctx, "shop", true, api.Wait{Index: index, Max: time.Minute})
	fmt.Println("index", index)
	// Output:
	// shop:8080 on web1 at 10.0.0.11:8080
	// index 7
}

func ExampleRing_Get() {
	client, stop := newFakeAgent()
	defer stop()
	ring, _, err := client.Ring().Get(context.Background(), api.Wait{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ring.Leader, ring.Members[0].Slots)
	// Output: web1 1024
}

// A change on the condition that nobody else made one.
func ExampleWithIfMatch() {
	client, stop := newFakeAgent()
	defer stop()
	ctx := context.Background()
	session, err := client.Sessions().Create(ctx, api.SessionCreate{Attributes: map[string]any{"n": 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Sessions().Patch(ctx, session.ID, map[string]any{"n": 2}, api.WithIfMatch(session.ETag))
	fmt.Println(err)
	_, err = client.Sessions().Patch(ctx, session.ID, map[string]any{"n": 3}, api.WithIfMatch(session.ETag))
	fmt.Println(api.HasCode(err, api.CodeVersionMismatch))
	// Output:
	// <nil>
	// true
}

func ExampleSessions_Incr() {
	client, stop := newFakeAgent()
	defer stop()
	ctx := context.Background()
	session, err := client.Sessions().Create(ctx, api.SessionCreate{Attributes: map[string]any{"visits": 41}})
	if err != nil {
		fmt.Println(err)
		return
	}
	changed, err := client.Sessions().Incr(ctx, session.ID, "visits", 1, api.WithIdempotencyKey("request-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(changed.Value, changed.Version)
	// Output: 42 2
}

func ExampleIsNotFound() {
	client, stop := newFakeAgent()
	defer stop()
	ctx := context.Background()
	session, err := client.Sessions().Create(ctx, api.SessionCreate{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := client.Sessions().Delete(ctx, session.ID); err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Sessions().Get(ctx, session.ID)
	fmt.Println(api.IsNotFound(err), err)
	// Output: true no such session (unknown_session)
}

func ExampleIsUnreachable() {
	client, err := api.NewClient(api.Config{Address: "unix:///nowhere/rondel.sock"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Status().Leader(context.Background())
	fmt.Println(api.IsUnreachable(err))
	fmt.Println(err)
	// Output:
	// true
	// no agent answers at unix:///nowhere/rondel.sock: connect: no such file or directory
}
