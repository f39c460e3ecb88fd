/** Amounts with units, so that GB and GiB, or tokens and sequences, cannot be confused. Uses no other package. */
package cs336.units;
