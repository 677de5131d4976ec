package netloop

import (
	"testing"

	"github.com/rondel-project/rondel/agent/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
