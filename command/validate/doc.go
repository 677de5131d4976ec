// Package validate is the verb that checks configuration as the start of an
// agent does, and shows what it comes to.
package validate
