package check

import (
	"fmt"
	"strconv"
	"strings"
)

// Statuses are codes and ranges of them, as in "200-299,304". Nothing is none.
type Statuses string

// has reports whether a status is among them. They must have been checked.
func (s Statuses) has(status int) bool {
	for _, one := range strings.Split(string(s), ",") {
		if low, high, ok := span(one); ok && status >= low && status <= high {
			return true
		}
	}
	return false
}

// Check says what is wrong with them, if anything.
func (s Statuses) Check() error {
	if s == "" {
		return nil
	}
	for _, one := range strings.Split(string(s), ",") {
		if _, _, ok := span(one); !ok {
			return fmt.Errorf("%q: must be a status or a range of them within 100 to 599, as in 200-299,304", one)
		}
	}
	return nil
}

func span(text string) (low, high int, ok bool) {
	from, to, ranged := strings.Cut(strings.TrimSpace(text), "-")
	if !ranged {
		to = from
	}
	low, err := strconv.Atoi(from)
	if err != nil || len(from) != 3 || low < 100 {
		return 0, 0, false
	}
	high, err = strconv.Atoi(to)
	return low, high, err == nil && len(to) == 3 && low <= high && high <= 599
}
