package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxFile bounds a configuration file, so that a device or a log given by
// mistake is an error rather than a full memory.
const maxFile = 4 << 20

// expand lists the files that path stands for: itself, or the *.hcl and *.json
// of a directory in byte order of their names. Skipped are the entries of a
// directory that are not read.
func expand(path string) (files, skipped []string, err error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, nil, err
	}
	entries, err := os.ReadDir(path) // sorted by name, bytewise
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range entries {
		full := filepath.Join(path, entry.Name())
		if !wanted(entry.Name()) || isDir(full) {
			skipped = append(skipped, full)
			continue
		}
		files = append(files, full)
	}
	return files, skipped, nil
}

func wanted(name string) bool {
	ext := filepath.Ext(name)
	return !strings.HasPrefix(name, ".") && (ext == ".hcl" || ext == ".json")
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("is larger than %s, too large for a configuration file", Size(maxFile))
	}
	return text, err
}

// reason drops the path from a file error, since a Problem names it already.
func reason(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return "cannot be read: " + pathErr.Err.Error()
	}
	return err.Error()
}
