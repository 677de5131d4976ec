package config

import (
	"os"
	"path/filepath"
)

// AccessLogFile is the block "access_log" of the section "proxy".
type AccessLogFile struct {
	Path   *string `opt:"path"`
	Format *string `opt:"format"`
	Query  *string `opt:"query"`
}

// AccessLog is where and how the proxy's requests are logged. Without a path
// they are not.
type AccessLog struct {
	Path   string `opt:"proxy.access_log.path,reload"`
	Format string `opt:"proxy.access_log.format,reload"` // json or combined
	Query  string `opt:"proxy.access_log.query,reload"`  // names, none or full
}

func defaultAccessLog() *AccessLogFile {
	return &AccessLogFile{Path: ptr(""), Format: ptr("json"), Query: ptr("names")}
}

func (f *AccessLogFile) runtime(c *checker) AccessLog {
	c.oneOf("proxy.access_log.format", *f.Format, "json", "combined")
	c.oneOf("proxy.access_log.query", *f.Query, "names", "none", "full")
	switch path := *f.Path; {
	case path == "", path == "stdout", path == "stderr":
	case !filepath.IsAbs(path):
		c.fail("proxy.access_log.path", path, `must be "stdout", "stderr" or the whole path of a file, as in "/var/log/rondel/access.log"`)
	default:
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			c.fail("proxy.access_log.path", path, "must be a file, and this is a directory")
		} else if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			c.fail("proxy.access_log.path", path, "must be in a directory that exists: "+filepath.Dir(path)+" is none")
		}
	}
	return AccessLog{Path: *f.Path, Format: *f.Format, Query: *f.Query}
}
