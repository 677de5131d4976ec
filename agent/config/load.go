package config

// Options is everything that a configuration is made from.
type Options struct {
	Paths   []string  // files and directories, in the order given
	Environ []string  // as os.Environ returns it
	Flags   []Setting // in the order given
	Host    Host
}

// Loaded is a configuration without problems.
type Loaded struct {
	Runtime  Runtime
	Origins  Origins  // where each option that somebody set comes from
	Warnings Problems // what will work, but hardly as meant
	Read     []string // the files, in order
	Skipped  []string // entries of directories that are no configuration

	merged *File
}

// Load merges and checks. The error is of type Problems and holds all of them;
// warnings are returned either way.
func Load(o Options) (Loaded, error) {
	out := Loaded{Origins: Origins{}}
	var problems Problems
	layers := []layer{{file: defaults(o.Host.Name)}, {}}
	for _, path := range o.Paths {
		files, skipped, err := expand(path)
		if err != nil {
			problems = append(problems, Problem{At: Origin{Source: path}, Rule: reason(err)})
			continue
		}
		out.Skipped = append(out.Skipped, skipped...)
		for _, file := range files {
			text, err := readFile(file)
			if err != nil {
				problems = append(problems, Problem{At: Origin{Source: file}, Rule: reason(err)})
				continue
			}
			l, found := decode(file, text)
			layers, problems = append(layers, l), append(problems, found...)
			out.Read = append(out.Read, file)
		}
	}
	env, found, warnings := envLayer(o.Environ)
	layers, problems, out.Warnings = append(layers, env), append(problems, found...), warnings
	flags, found := flagLayer(o.Flags)
	layers, problems = append(layers, flags), append(problems, found...)

	if dev := last(layers); dev {
		layers[1].file = devDefaults()
	}
	merged := &layers[0].file
	for _, l := range layers[1:] {
		merged = merge(merged, &l.file)
		for option, at := range l.origins {
			out.Origins[option] = at
		}
	}
	c := &checker{origins: out.Origins}
	out.Runtime, out.merged = merged.runtime(c, o.Host), merged
	out.Warnings = append(out.Warnings, c.warnings...)
	out.Warnings.sort()
	broken := len(problems) > 0
	for _, p := range c.problems {
		// What seems absent may stand in a part that could not be read.
		if !broken || p.At.Source != defaultSource {
			problems = append(problems, p)
		}
	}
	if len(problems) > 0 {
		problems.sort()
		return Loaded{Warnings: out.Warnings, Read: out.Read, Skipped: out.Skipped}, problems
	}
	return out, nil
}

// last returns the dev option of the last layer that has one: it decides about
// a layer, so it is needed before the merge.
func last(layers []layer) (dev bool) {
	for _, l := range layers {
		if l.file.Dev != nil {
			dev = *l.file.Dev
		}
	}
	return dev
}
