package cs336.numbers;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** The column header of a record component in {@link Tables#of}. The default is the component's name. */
@Target(ElementType.RECORD_COMPONENT)
@Retention(RetentionPolicy.RUNTIME)
public @interface Header {
    /** Returns the header in words with its unit, such as {@code "peak memory (GB)"}. */
    String value();
}
