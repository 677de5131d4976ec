package agent

import (
	"reflect"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/proxy"
)

// defaultRuntime is the configuration of an agent that nobody has configured.
func defaultRuntime(t *testing.T) config.Runtime {
	t.Helper()
	loaded, err := config.Load(config.Options{Flags: []config.Setting{{Option: "dev", Value: "true", Flag: "-dev"}}, Host: config.Host{Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Runtime
}

// What the proxy does by itself is what the documentation says it does.
func TestProxyPhases_defaults(t *testing.T) {
	t.Parallel()
	got, want := proxyConfig(defaultRuntime(t), ""), proxy.DefaultConfig()
	if got.Timeouts != want.Timeouts || got.Limits != want.Limits {
		t.Errorf("defaults differ:\n%+v\n%+v", got, want)
	}
}

// Every timeout and limit reaches the proxy.
func TestProxyPhases_leavesNothingOut(t *testing.T) {
	t.Parallel()
	base := defaultRuntime(t)
	for name, section := range map[string]func(*config.Runtime) reflect.Value{
		"timeouts":   func(r *config.Runtime) reflect.Value { return reflect.ValueOf(&r.Proxy.Timeouts).Elem() },
		"limits":     func(r *config.Runtime) reflect.Value { return reflect.ValueOf(&r.Proxy.Limits).Elem() },
		"access_log": func(r *config.Runtime) reflect.Value { return reflect.ValueOf(&r.Proxy.AccessLog).Elem() },
	} {
		for i := range section(&base).NumField() {
			changed := base
			switch f := section(&changed).Field(i); v := f.Interface().(type) {
			case time.Duration:
				f.Set(reflect.ValueOf(v + time.Hour))
			case int64, int:
				f.SetInt(f.Int() + 1)
			case string:
				f.SetString(map[string]string{"": "stdout", "json": "combined", "names": "full"}[v])
			}
			same := reflect.DeepEqual(proxyConfig(changed, ""), proxyConfig(base, ""))
			if same && accessLog(changed.Proxy.AccessLog) == accessLog(base.Proxy.AccessLog) {
				t.Errorf("%s: %s makes no difference", name, section(&base).Type().Field(i).Name)
			}
		}
	}
}
