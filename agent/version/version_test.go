package version

import "testing"

func TestInfo_stringNamesCommitWhenStamped(t *testing.T) {
	t.Parallel()
	for want, info := range map[string]Info{
		"rondel v1.2.3":           {Version: "1.2.3"},
		"rondel v1.2.3 (abc1234)": {Version: "1.2.3", Commit: "abc1234"},
	} {
		if got := info.String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}
