// Package forceleave is the verb that declares a failed member gone.
package forceleave
