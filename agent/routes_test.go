package agent

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/proxy"
)

// Every option of a route reaches the proxy: with any field changed, the proxy
// gets another route.
func TestProxyRoute_leavesNothingOut(t *testing.T) {
	t.Parallel()
	base := config.DefaultRoute("shop")
	var walk func(path string, index []int, typ reflect.Type)
	walk = func(path string, index []int, typ reflect.Type) {
		if typ.Kind() == reflect.Struct {
			for i := range typ.NumField() {
				walk(path+"."+typ.Field(i).Name, append(index[:len(index):len(index)], i), typ.Field(i).Type)
			}
			return
		}
		changed := base
		f := reflect.ValueOf(&changed).Elem().FieldByIndex(index)
		other(t, path, f)
		if reflect.DeepEqual(proxyRoute(changed), proxyRoute(base)) {
			t.Errorf("%s makes no difference to the proxy", path)
		}
	}
	walk("Route", nil, reflect.TypeOf(base))
}

// other gives a field another value.
func other(t *testing.T, path string, f reflect.Value) {
	t.Helper()
	switch f.Interface().(type) {
	case config.Balance:
		f.Set(reflect.ValueOf(config.LeastLoad))
		return
	case config.Secure:
		f.Set(reflect.ValueOf(config.SecureOff))
		return
	case http.SameSite:
		f.Set(reflect.ValueOf(http.SameSiteStrictMode))
		return
	case time.Duration:
		f.SetInt(f.Int() + int64(time.Hour))
		return
	}
	switch {
	case path == "Route.HashOn.From":
		f.SetString("cookie")
	case f.Kind() == reflect.String:
		f.SetString(f.String() + "x")
	case f.Kind() == reflect.Bool:
		f.SetBool(!f.Bool())
	case f.Kind() == reflect.Int || f.Kind() == reflect.Int64:
		f.SetInt(f.Int() + 1)
	case f.Type() == reflect.TypeFor[[]int]():
		f.Set(reflect.ValueOf([]int{599}))
	default:
		t.Fatalf("%s: the test knows no other value of a %s", path, f.Type())
	}
}

func TestProxyRoute_everyWord(t *testing.T) {
	t.Parallel()
	for from, want := range map[config.Balance]proxy.Balance{
		config.RoundRobin: proxy.RoundRobin, config.WeightedRoundRobin: proxy.WeightedRoundRobin,
		config.Random: proxy.Random, config.LeastLoad: proxy.LeastLoad, config.Hash: proxy.Hash,
	} {
		if got := proxyRoute(config.Route{Balance: from}).Balance; got != want {
			t.Errorf("balance %s became %d", from, got)
		}
	}
	for from, want := range map[string]proxy.HashOn{
		"": proxy.HashNothing, "header": proxy.HashHeader, "query": proxy.HashQuery, "cookie": proxy.HashCookie,
		"path": proxy.HashPath, "client_ip": proxy.HashClientIP,
	} {
		if got := proxyRoute(config.Route{HashOn: config.HashKey{From: from}}).HashOn; got != want {
			t.Errorf("hash on %s became %d", from, got)
		}
	}
	for from, want := range map[config.Secure]proxy.Secure{
		config.SecureAuto: proxy.SecureAuto, config.SecureOn: proxy.SecureOn, config.SecureOff: proxy.SecureOff,
	} {
		if got := proxySticky(config.Sticky{Secure: from}).Secure; got != want {
			t.Errorf("secure %s became %d", from, got)
		}
	}
	for from, want := range map[http.SameSite]string{
		http.SameSiteLaxMode: "Lax", http.SameSiteStrictMode: "Strict", http.SameSiteNoneMode: "None",
	} {
		if got := proxySticky(config.Sticky{SameSite: from}).SameSite; got != want {
			t.Errorf("same site %d became %q", from, got)
		}
	}
}

// What a lone service gets is what the proxy would give it by itself.
func TestProxyRoute_defaults(t *testing.T) {
	t.Parallel()
	if got, want := proxyRoute(config.DefaultRoute("shop")), proxy.DefaultRoute("shop"); !reflect.DeepEqual(got, want) {
		t.Errorf("defaults differ:\n%+v\n%+v", got, want)
	}
	cfg := proxyConfig(defaultRuntime(t), "shop")
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}
